"""Evaluation beside training, and calls that hold a loop up."""

from tests.core.fixes.forms.form import forms

EVALUATIONS = forms("""
no-grad: an accuracy over the test set
    import torch
    def test(model, loader):
        model.eval()
        right = 0
        for x, y in loader:
            out = model(x)  # here
            right += (out.argmax(1) == y).sum().item()
        print(right)
> with torch.no_grad():
> for x, y in loader:
> out = model(x)
> right += (out.argmax(1) == y).sum().item()

no-grad: in the function that trains
    import torch
    for epoch in range(9):
        model.train()
        for x, y in loader:
            TRAIN
        model.eval()
        total = 0
        for x, y in held_out:
            loss = f(model(x), y)  # here
            total += loss.item()
        print(total)
> with torch.no_grad():
> for x, y in held_out:
> loss = f(model(x), y)
> total += loss.item()

no-grad: means that are gathered
    import torch
    from meters import AverageMeter
    def validate(loader):
        losses = AverageMeter()
        for x, y in loader:
            loss = f(model(x), y)  # here
            losses.update(loss.item(), x.size(0))
        return losses.avg
> with torch.no_grad():
> for x, y in loader:
> loss = f(model(x), y)
> losses.update(loss.item(), x.size(0))

no-grad: a forward pass over time
    import torch
    class Net(torch.nn.Module):
        def forward(self, x):
            for t in range(x.shape[1]):
                h = self.cell(x[:, t], h)  # here
            return h
! nothing shows that the loop

no-grad: a loss that is kept for backward
    import torch
    model.eval()
    total = 0
    for x, y in loader:
        total = total + f(model(x), y)  # here
    total.backward()
! may run backward through total

no-grad: a loss that a caller differentiates
    import torch
    def validation_loss(model, loader):
        total = 0
        for x, y in loader:
            total = total + f(model(x), y)  # here
        return total
    loss = validation_loss(model, held_out)
    loss.backward()
! may run backward through loss

no-grad: an attack on the model
    import torch
    def test(model, loader):
        for x, y in loader:
            x.requires_grad_()
            out = model(x)  # here
! calls requires_grad_()

no-grad: epochs that train and evaluate
    import torch
    from engine import update_all
    def evaluate_all():
        for epoch in range(9):
            update_all(model)
            show(model(x))  # here
! calls update_all()

no-grad: without gradients already
    import torch
    @torch.no_grad()
    def test(model, loader):
        for x, y in loader:
            out = model(x)  # here
! already records no gradients

no-grad: batches that are handed on
    import torch
    def predictions(model, loader):
        for x, y in loader:
            yield model(x)  # here
! passes on what the loop computes

evaluate-less-often: evaluation in each epoch
    epochs = 9
    for epoch in range(epochs):
        for x, y in loader:
            TRAIN
        evaluate(model, held_out)  # here
> if epoch % 10 == 0 or epoch == epochs - 1:
> evaluate(model, held_out)

evaluate-less-often: evaluation that a schedule needs
    for epoch in range(epochs):
        for x, y in loader:
            TRAIN
        accuracy = evaluate(model, held_out)  # here
        scheduler.step(accuracy)
! calls step()

evaluate-less-often: evaluation whose result is printed
    def main(epochs):
        for epoch in range(epochs):
            train(model)
            loss, accuracy = evaluate(model, held_out)  # here
            took = time.time() - started
            print(f"{epoch}: {accuracy:.3f}, {took}")
    def train(model):
        started = time.time()
        for x, y in loader:
            TRAIN
> if epoch % 10 == 0 or epoch == epochs - 1:
> loss, accuracy = evaluate(model, held_out)
> took = time.time() - started
> print(f"{epoch}: {accuracy:.3f}, {took}")

evaluate-less-often: evaluation whose best is kept
    def main(epochs, best=0):
        for epoch in range(epochs):
            train(model)
            accuracy = evaluate(model, held_out)  # here
            if accuracy > best:
                best = accuracy
                torch.save(model.state_dict(), "best.pt")
    def train(model):
        for x, y in loader:
            TRAIN
> if epoch % 10 == 0 or epoch == epochs - 1:
> accuracy = evaluate(model, held_out)
> if accuracy > best:
> best = accuracy
> torch.save(model.state_dict(), "best.pt")

evaluate-less-often: evaluation that ends the training
    for epoch in range(9):
        for x, y in loader:
            TRAIN
        loss = evaluate(model, held_out)  # here
        stopping(loss)
! whose effects are not known

evaluate-less-often: evaluation whose results are kept
    best = 0
    for epoch in range(9):
        for x, y in loader:
            TRAIN
        accuracy = evaluate(model, held_out)  # here
        best = max(best, accuracy)
    print(best)
! reads best, which it sets

collect: garbage in each step
    import gc
    for x, y in loader:
        TRAIN
        gc.collect()  # here
> optimizer.zero_grad()

collect: garbage whose count is printed
    import gc
    for x, y in loader:
        TRAIN
        print(gc.collect())  # here
! uses what gc.collect returns

sleep: a pause in each step
    import time
    for x, y in loader:
        TRAIN
        time.sleep(0.1)  # here
> optimizer.zero_grad()

sleep: a wait for a file
    import time
    for x, y in loader:
        TRAIN
        while True:
            if ready():
                break
            time.sleep(0.1)  # here
! uses it to wait for something

sleep: a pause before another try
    import time
    for x, y in loader:
        TRAIN
        try:
            upload(loss)
        except OSError:
            time.sleep(1)  # here
! belongs to the error handler

empty-cache: freed memory in each step
    import torch
    for x, y in loader:
        TRAIN
        if True:
            torch.cuda.empty_cache()  # here
> pass

empty-cache: freed memory after there was none
    import torch
    for x, y in loader:
        try:
            TRAIN
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()  # here
! belongs to the error handler
""")
