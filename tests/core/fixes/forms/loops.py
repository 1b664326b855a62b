"""What a loop over steps does beside training: prints, logs, saves."""

from tests.core.fixes.forms.form import forms

LOOPS = forms("""
less-often: TensorBoard in each step
    for epoch in range(9):
        for i, (x, y) in enumerate(tqdm(loader)):
            TRAIN
            writer.add_scalar("loss", loss.item(), epoch * len(loader) + i)  # here
> if i % 10 == 0:
> writer.add_scalar("loss", loss.item(), epoch * len(loader) + i)

less-often: every 50 steps
    for i, (x, y) in enumerate(loader):
        TRAIN
        if (i + 1) % 50 == 0:
            print(f"{i}: {loss.item():.3f}")  # here
> if (i + 1) % 500 == 0:

less-often: every so many steps of the main rank
    for step in range(args.steps):
        TRAIN
        if rank == 0 and step % args.log_every == 0:
            logger.info("%d %f", step, loss.item())  # here
> if rank == 0 and step % (10 * args.log_every) == 0:

less-often: in the last step, too
    for step in range(steps):
        TRAIN
        if step % 50 == 0 or step == steps - 1:
            print(loss.item())  # here
> if step % 500 == 0 or step == steps - 1:

less-often: in the last step only
    for step in range(steps):
        TRAIN
        if step == steps - 1:
            print(loss.item())  # here
! decides in which steps

less-often: in the step of a generator
    opt = parser.parse_args()
    for i, (x, y) in enumerate(loader):
        TRAIN
        if i % opt.n_critic == 0:
            g_loss.backward()
            optimizer.step()
            print(g_loss.item())  # here
> if i % (10 * opt.n_critic) == 0:
> print(g_loss.item())

less-often: in the step after several micro-batches
    def fit(every):
        for step, (x, y) in enumerate(loader):
            loss = f(model(x), y)
            loss.backward()
            if (step + 1) % every == 0:
                optimizer.step()
                optimizer.zero_grad()
                print(loss.item())  # here
> if (step + 1) % (10 * every) == 0:
> print(loss.item())

less-often: a counter of the trainer
    class Trainer:
        def fit(self):
            while self.step < self.steps:
                TRAIN
                bar.set_description(f"{loss.item():.3f}")  # here
                self.step += 1
> if self.step % 10 == 0:
> bar.set_description(f"{loss.item():.3f}")

less-often: when it is better
    for step in range(steps):
        TRAIN
        if loss.item() < 0.1:
            torch.save(model.state_dict(), "best.pt")  # here
! decides in which steps

less-often: a comment says how often
    for i, (x, y) in enumerate(loader):
        TRAIN
        if i % 200 == 0:    # print every 200 mini-batches
            print(loss.item())  # here
! says 200

less-often: a mean over the steps between
    for i, (x, y) in enumerate(loader):
        TRAIN
        if i % 100 == 99:
            print(total / 100)  # here
! does something with 100

less-often: a sum that is reset
    total = 0.0
    for i, (x, y) in enumerate(loader):
        TRAIN
        total += loss.item()
        if i % 100 == 99:
            print(total)  # here
            total = 0.0
! reads total, which it sets

less-often: a dry run that ends the loop
    for i, (x, y) in enumerate(loader):
        TRAIN
        if i % args.log_interval == 0:
            print(loss.item())  # here
            if args.dry_run:
                break
! leaves the loop

less-often: a checkpoint in each step
    import torch
    for step in range(1000):
        TRAIN
        torch.save({"net": model.state_dict(), "step": step}, f"{step}.pt")  # here
> if step % 10 == 0 or step == 999:
> torch.save({"net": model.state_dict(), "step": step}, f"{step}.pt")

less-often: a checkpoint in each epoch
    import torch
    args = parser.parse_args()
    for epoch in range(args.epochs):
        for x, y in loader:
            TRAIN
        torch.save(model.state_dict(), "last.pt")  # here
> if epoch % 10 == 0 or epoch == args.epochs - 1:
> torch.save(model.state_dict(), "last.pt")

less-often: a checkpoint that may be the best
    for epoch in range(9):
        for x, y in loader:
            TRAIN
        is_best = validate(model) > best
        best = max(best, is_best)
        save_checkpoint({"net": model.state_dict(), "best": best}, is_best)  # here
! keeps what was best so far

less-often: epochs that step a schedule
    for epoch in range(9):
        optimizer.zero_grad()
        for x, y in loader:
            TRAIN
        scheduler.step()
        print(epoch)  # here
> if epoch % 10 == 0 or epoch == 8:
> print(epoch)

less-often: micro-batches of a step
    for step in range(9):
        for i, (x, y) in enumerate(parts):
            loss = f(model(x), y)
            loss.backward()
            print(loss.item())  # here
        optimizer.step()
        optimizer.zero_grad()
! a step is several iterations of the loop

evaluate-less-often: evaluation that never ends
    def evaluate():
        model.eval()
        print(f(model(held_out), truth))  # here
    model.train()
    for i, (x, y) in enumerate(loader):
        TRAIN
        evaluate()
! leaves the model in evaluation

less-often: epochs counted from one
    def main(args):
        for epoch in range(1, args.epochs + 1):
            train(model)
            save_checkpoint(model, epoch)  # here
    def train(model):
        for x, y in loader:
            TRAIN
> if epoch % 10 == 0 or epoch == args.epochs:
> save_checkpoint(model, epoch)

less-often: epochs without an end
    import itertools
    for epoch in itertools.count():
        for x, y in loader:
            TRAIN
        print(epoch)  # here
! does not show which iteration is its last

less-often: every few epochs
    for epoch in range(9):
        for x, y in loader:
            TRAIN
        if epoch % 5 == 0:
            print(epoch)  # here
! counts iterations of many steps each

less-often: a loop that strides
    for i in range(0, len(data), 32):
        TRAIN
        print(loss.item())  # here
! nothing counts the steps

less-often: steps that are left out before
    for i, (x, y) in enumerate(loader):
        loss = f(model(x), y)
        loss.backward()
        if i % 4 != 3:
            continue
        optimizer.step()
        print(loss.item())  # here
! may end a step before it

less-often: a counter that another loop sets
    for i, (x, y) in enumerate(loader):
        TRAIN
        for i in range(3):
            shown(i)
        print(loss.item())  # here
! sets i, which counts

less-often: an average that is needed
    for i, (x, y) in enumerate(loader):
        TRAIN
        losses.update(loss.item(), x.size(0))  # here
! calls update()

less-often: a rate that is set
    from schedules import adjust_learning_rate
    for i, (x, y) in enumerate(loader):
        TRAIN
        adjust_learning_rate(optimizer, i)  # here
! whose effects are not known

less-often: pictures of a generator
    from torchvision.utils import save_image
    for i, (x, y) in enumerate(loader):
        TRAIN
        save_image(generator(noise), "fake.png")  # here
! calls generator()

less-often: pictures of what there is
    from torchvision.utils import save_image
    for i, (x, y) in enumerate(loader):
        TRAIN
        save_image(fake.data[:25], "fake.png", nrow=5, normalize=True)  # here
> if i % 10 == 0:
> save_image(fake.data[:25], "fake.png", nrow=5, normalize=True)

less-often: a list that is kept
    def fit(losses):
        for i, (x, y) in enumerate(loader):
            TRAIN
            losses.append(loss.item())  # here
! calls append()

less-often: a log in a function of the file
    def log(step, loss):
        with open("log.csv", "a") as file:
            file.write(f"{step},{loss}")  # here
    for step, (x, y) in enumerate(loader):
        TRAIN
        log(step, loss.item())
> if step % 10 == 0:
> log(step, loss.item())
""")
