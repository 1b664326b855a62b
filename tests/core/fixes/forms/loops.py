"""What a loop over steps does beside training: prints, logs, saves."""

from __future__ import annotations

from tests.core.fixes.forms.form import Form

LOOPS = (
    Form(
        "a print in each step",
        "less-often",
        """
        for i, (x, y) in enumerate(loader):
            TRAIN
            print(i, loss.item())  # here
        """,
        ("if i % 10 == 0:", "print(i, loss.item())"),
    ),
    Form(
        "TensorBoard in each step",
        "less-often",
        """
        for epoch in range(9):
            for i, (x, y) in enumerate(tqdm(loader)):
                TRAIN
                writer.add_scalar("loss", loss.item(), epoch * len(loader) + i)  # here
        """,
        (
            "if i % 10 == 0:",
            'writer.add_scalar("loss", loss.item(), epoch * len(loader) + i)',
        ),
    ),
    Form(
        "every 50 steps",
        "less-often",
        """
        for i, (x, y) in enumerate(loader):
            TRAIN
            if (i + 1) % 50 == 0:
                print(f"{i}: {loss.item():.3f}")  # here
        """,
        ("if (i + 1) % 500 == 0:",),
    ),
    Form(
        "every so many steps of the main rank",
        "less-often",
        """
        for step in range(args.steps):
            TRAIN
            if rank == 0 and step % args.log_every == 0:
                logger.info("%d %f", step, loss.item())  # here
        """,
        ("if rank == 0 and step % (10 * args.log_every) == 0:",),
    ),
    Form(
        "in the last step, too",
        "less-often",
        """
        for step in range(steps):
            TRAIN
            if step % 50 == 0 or step == steps - 1:
                print(loss.item())  # here
        """,
        ("if step % 500 == 0 or step == steps - 1:",),
    ),
    Form(
        "in the last step only",
        "less-often",
        """
        for step in range(steps):
            TRAIN
            if step == steps - 1:
                print(loss.item())  # here
        """,
        refused="decides in which steps",
    ),
    Form(
        "in the step of a generator",
        "less-often",
        """
        opt = parser.parse_args()
        for i, (x, y) in enumerate(loader):
            TRAIN
            if i % opt.n_critic == 0:
                g_loss.backward()
                optimizer.step()
                print(g_loss.item())  # here
        """,
        ("if i % (10 * opt.n_critic) == 0:", "print(g_loss.item())"),
    ),
    Form(
        "in the step after several micro-batches",
        "less-often",
        """
        def fit(every):
            for step, (x, y) in enumerate(loader):
                loss = f(model(x), y)
                loss.backward()
                if (step + 1) % every == 0:
                    optimizer.step()
                    optimizer.zero_grad()
                    print(loss.item())  # here
        """,
        ("if (step + 1) % (10 * every) == 0:", "print(loss.item())"),
    ),
    Form(
        "a counter of the trainer",
        "less-often",
        """
        class Trainer:
            def fit(self):
                while self.step < self.steps:
                    TRAIN
                    bar.set_description(f"{loss.item():.3f}")  # here
                    self.step += 1
        """,
        ("if self.step % 10 == 0:", 'bar.set_description(f"{loss.item():.3f}")'),
    ),
    Form(
        "when it is better",
        "less-often",
        """
        for step in range(steps):
            TRAIN
            if loss.item() < 0.1:
                torch.save(model.state_dict(), "best.pt")  # here
        """,
        refused="decides in which steps",
    ),
    Form(
        "a comment says how often",
        "less-often",
        """
        for i, (x, y) in enumerate(loader):
            TRAIN
            if i % 200 == 0:    # print every 200 mini-batches
                print(loss.item())  # here
        """,
        refused="says 200",
    ),
    Form(
        "a mean over the steps between",
        "less-often",
        """
        for i, (x, y) in enumerate(loader):
            TRAIN
            if i % 100 == 99:
                print(total / 100)  # here
        """,
        refused="does something with 100",
    ),
    Form(
        "a sum that is reset",
        "less-often",
        """
        total = 0.0
        for i, (x, y) in enumerate(loader):
            TRAIN
            total += loss.item()
            if i % 100 == 99:
                print(total)  # here
                total = 0.0
        """,
        refused="reads total, which it sets",
    ),
    Form(
        "a dry run that ends the loop",
        "less-often",
        """
        for i, (x, y) in enumerate(loader):
            TRAIN
            if i % args.log_interval == 0:
                print(loss.item())  # here
                if args.dry_run:
                    break
        """,
        refused="leaves the loop",
    ),
    Form(
        "a checkpoint in each step",
        "less-often",
        """
        import torch
        for step in range(1000):
            TRAIN
            torch.save({"net": model.state_dict(), "step": step}, f"{step}.pt")  # here
        """,
        (
            "if step % 10 == 0 or step == 999:",
            'torch.save({"net": model.state_dict(), "step": step}, f"{step}.pt")',
        ),
    ),
    Form(
        "a checkpoint in each epoch",
        "less-often",
        """
        import torch
        args = parser.parse_args()
        for epoch in range(args.epochs):
            for x, y in loader:
                TRAIN
            torch.save(model.state_dict(), "last.pt")  # here
        """,
        (
            "if epoch % 10 == 0 or epoch == args.epochs - 1:",
            'torch.save(model.state_dict(), "last.pt")',
        ),
    ),
    Form(
        "a checkpoint that may be the best",
        "less-often",
        """
        for epoch in range(9):
            for x, y in loader:
                TRAIN
            is_best = validate(model) > best
            best = max(best, is_best)
            save_checkpoint({"net": model.state_dict(), "best": best}, is_best)  # here
        """,
        refused="keeps what was best so far",
    ),
    Form(
        "epochs that step a schedule",
        "less-often",
        """
        for epoch in range(9):
            optimizer.zero_grad()
            for x, y in loader:
                TRAIN
            scheduler.step()
            print(epoch)  # here
        """,
        ("if epoch % 10 == 0 or epoch == 8:", "print(epoch)"),
    ),
    Form(
        "micro-batches of a step",
        "less-often",
        """
        for step in range(9):
            for i, (x, y) in enumerate(parts):
                loss = f(model(x), y)
                loss.backward()
                print(loss.item())  # here
            optimizer.step()
            optimizer.zero_grad()
        """,
        refused="a step is several iterations of the loop",
    ),
    Form(
        "evaluation that never ends",
        "evaluate-less-often",
        """
        def evaluate():
            model.eval()
            print(f(model(held_out), truth))  # here
        model.train()
        for i, (x, y) in enumerate(loader):
            TRAIN
            evaluate()
        """,
        refused="leaves the model in evaluation",
    ),
    Form(
        "epochs counted from one",
        "less-often",
        """
        def main(args):
            for epoch in range(1, args.epochs + 1):
                train(model)
                save_checkpoint(model, epoch)  # here
        def train(model):
            for x, y in loader:
                TRAIN
        """,
        (
            "if epoch % 10 == 0 or epoch == args.epochs:",
            "save_checkpoint(model, epoch)",
        ),
    ),
    Form(
        "epochs without an end",
        "less-often",
        """
        import itertools
        for epoch in itertools.count():
            for x, y in loader:
                TRAIN
            print(epoch)  # here
        """,
        refused="does not show which iteration is its last",
    ),
    Form(
        "every few epochs",
        "less-often",
        """
        for epoch in range(9):
            for x, y in loader:
                TRAIN
            if epoch % 5 == 0:
                print(epoch)  # here
        """,
        refused="counts iterations of many steps each",
    ),
    Form(
        "a loop that strides",
        "less-often",
        """
        for i in range(0, len(data), 32):
            TRAIN
            print(loss.item())  # here
        """,
        refused="nothing counts the steps",
    ),
    Form(
        "steps that are left out before",
        "less-often",
        """
        for i, (x, y) in enumerate(loader):
            loss = f(model(x), y)
            loss.backward()
            if i % 4 != 3:
                continue
            optimizer.step()
            print(loss.item())  # here
        """,
        refused="may end a step before it",
    ),
    Form(
        "a counter that another loop sets",
        "less-often",
        """
        for i, (x, y) in enumerate(loader):
            TRAIN
            for i in range(3):
                shown(i)
            print(loss.item())  # here
        """,
        refused="sets i, which counts",
    ),
    Form(
        "an average that is needed",
        "less-often",
        """
        for i, (x, y) in enumerate(loader):
            TRAIN
            losses.update(loss.item(), x.size(0))  # here
        """,
        refused="calls update()",
    ),
    Form(
        "a rate that is set",
        "less-often",
        """
        from schedules import adjust_learning_rate
        for i, (x, y) in enumerate(loader):
            TRAIN
            adjust_learning_rate(optimizer, i)  # here
        """,
        refused="whose effects are not known",
    ),
    Form(
        "pictures of a generator",
        "less-often",
        """
        from torchvision.utils import save_image
        for i, (x, y) in enumerate(loader):
            TRAIN
            save_image(generator(noise), "fake.png")  # here
        """,
        refused="calls generator()",
    ),
    Form(
        "pictures of what there is",
        "less-often",
        """
        from torchvision.utils import save_image
        for i, (x, y) in enumerate(loader):
            TRAIN
            save_image(fake.data[:25], "fake.png", nrow=5, normalize=True)  # here
        """,
        ("if i % 10 == 0:", 'save_image(fake.data[:25], "fake.png", nrow=5, normalize=True)'),
    ),
    Form(
        "a list that is kept",
        "less-often",
        """
        def fit(losses):
            for i, (x, y) in enumerate(loader):
                TRAIN
                losses.append(loss.item())  # here
        """,
        refused="calls append()",
    ),
    Form(
        "a log in a function of the file",
        "less-often",
        """
        def log(step, loss):
            with open("log.csv", "a") as file:
                file.write(f"{step},{loss}")  # here
        for step, (x, y) in enumerate(loader):
            TRAIN
            log(step, loss.item())
        """,
        ("if step % 10 == 0:", "log(step, loss.item())"),
    ),
)
