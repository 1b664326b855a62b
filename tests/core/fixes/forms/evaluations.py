"""Evaluation beside training, and calls that hold a loop up."""

from __future__ import annotations

from tests.core.fixes.forms.form import Form

EVALUATIONS = (
    Form(
        "an accuracy over the test set",
        "no-grad",
        """
        import torch
        def test(model, loader):
            model.eval()
            right = 0
            for x, y in loader:
                out = model(x)  # here
                right += (out.argmax(1) == y).sum().item()
            print(right)
        """,
        (
            "with torch.no_grad():",
            "for x, y in loader:",
            "out = model(x)",
            "right += (out.argmax(1) == y).sum().item()",
        ),
    ),
    Form(
        "in the function that trains",
        "no-grad",
        """
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
        """,
        (
            "with torch.no_grad():",
            "for x, y in held_out:",
            "loss = f(model(x), y)",
            "total += loss.item()",
        ),
    ),
    Form(
        "means that are gathered",
        "no-grad",
        """
        import torch
        from meters import AverageMeter
        def validate(loader):
            losses = AverageMeter()
            for x, y in loader:
                loss = f(model(x), y)  # here
                losses.update(loss.item(), x.size(0))
            return losses.avg
        """,
        (
            "with torch.no_grad():",
            "for x, y in loader:",
            "loss = f(model(x), y)",
            "losses.update(loss.item(), x.size(0))",
        ),
    ),
    Form(
        "a forward pass over time",
        "no-grad",
        """
        import torch
        class Net(torch.nn.Module):
            def forward(self, x):
                for t in range(x.shape[1]):
                    h = self.cell(x[:, t], h)  # here
                return h
        """,
        refused="nothing shows that the loop",
    ),
    Form(
        "a loss that is kept for backward",
        "no-grad",
        """
        import torch
        model.eval()
        total = 0
        for x, y in loader:
            total = total + f(model(x), y)  # here
        total.backward()
        """,
        refused="may run backward through total",
    ),
    Form(
        "a loss that a caller differentiates",
        "no-grad",
        """
        import torch
        def validation_loss(model, loader):
            total = 0
            for x, y in loader:
                total = total + f(model(x), y)  # here
            return total
        loss = validation_loss(model, held_out)
        loss.backward()
        """,
        refused="may run backward through loss",
    ),
    Form(
        "an attack on the model",
        "no-grad",
        """
        import torch
        def test(model, loader):
            for x, y in loader:
                x.requires_grad_()
                out = model(x)  # here
        """,
        refused="calls requires_grad_()",
    ),
    Form(
        "epochs that train and evaluate",
        "no-grad",
        """
        import torch
        from engine import update_all
        def evaluate_all():
            for epoch in range(9):
                update_all(model)
                show(model(x))  # here
        """,
        refused="calls update_all()",
    ),
    Form(
        "without gradients already",
        "no-grad",
        """
        import torch
        @torch.no_grad()
        def test(model, loader):
            for x, y in loader:
                out = model(x)  # here
        """,
        refused="already records no gradients",
    ),
    Form(
        "batches that are handed on",
        "no-grad",
        """
        import torch
        def predictions(model, loader):
            for x, y in loader:
                yield model(x)  # here
        """,
        refused="passes on what the loop computes",
    ),
    Form(
        "evaluation in each epoch",
        "evaluate-less-often",
        """
        epochs = 9
        for epoch in range(epochs):
            for x, y in loader:
                TRAIN
            evaluate(model, held_out)  # here
        """,
        (
            "if epoch % 10 == 0 or epoch == epochs - 1:",
            "evaluate(model, held_out)",
        ),
    ),
    Form(
        "evaluation that a schedule needs",
        "evaluate-less-often",
        """
        for epoch in range(epochs):
            for x, y in loader:
                TRAIN
            accuracy = evaluate(model, held_out)  # here
            scheduler.step(accuracy)
        """,
        refused="calls step()",
    ),
    Form(
        "evaluation whose result is printed",
        "evaluate-less-often",
        """
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
        """,
        (
            "if epoch % 10 == 0 or epoch == epochs - 1:",
            "loss, accuracy = evaluate(model, held_out)",
            "took = time.time() - started",
            'print(f"{epoch}: {accuracy:.3f}, {took}")',
        ),
    ),
    Form(
        "evaluation whose best is kept",
        "evaluate-less-often",
        """
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
        """,
        (
            "if epoch % 10 == 0 or epoch == epochs - 1:",
            "accuracy = evaluate(model, held_out)",
            "if accuracy > best:",
            "best = accuracy",
            'torch.save(model.state_dict(), "best.pt")',
        ),
    ),
    Form(
        "evaluation that ends the training",
        "evaluate-less-often",
        """
        for epoch in range(9):
            for x, y in loader:
                TRAIN
            loss = evaluate(model, held_out)  # here
            stopping(loss)
        """,
        refused="whose effects are not known",
    ),
    Form(
        "evaluation whose results are kept",
        "evaluate-less-often",
        """
        best = 0
        for epoch in range(9):
            for x, y in loader:
                TRAIN
            accuracy = evaluate(model, held_out)  # here
            best = max(best, accuracy)
        print(best)
        """,
        refused="reads best, which it sets",
    ),
    Form(
        "garbage in each step",
        "collect",
        """
        import gc
        for x, y in loader:
            TRAIN
            gc.collect()  # here
        """,
        ("optimizer.zero_grad()",),
    ),
    Form(
        "garbage whose count is printed",
        "collect",
        """
        import gc
        for x, y in loader:
            TRAIN
            print(gc.collect())  # here
        """,
        refused="uses what gc.collect returns",
    ),
    Form(
        "a pause in each step",
        "sleep",
        """
        import time
        for x, y in loader:
            TRAIN
            time.sleep(0.1)  # here
        """,
        ("optimizer.zero_grad()",),
    ),
    Form(
        "a wait for a file",
        "sleep",
        """
        import time
        for x, y in loader:
            TRAIN
            while True:
                if ready():
                    break
                time.sleep(0.1)  # here
        """,
        refused="uses it to wait for something",
    ),
    Form(
        "a pause before another try",
        "sleep",
        """
        import time
        for x, y in loader:
            TRAIN
            try:
                upload(loss)
            except OSError:
                time.sleep(1)  # here
        """,
        refused="belongs to the error handler",
    ),
    Form(
        "freed memory in each step",
        "empty-cache",
        """
        import torch
        for x, y in loader:
            TRAIN
            if True:
                torch.cuda.empty_cache()  # here
        """,
        ("pass",),
    ),
    Form(
        "freed memory after there was none",
        "empty-cache",
        """
        import torch
        for x, y in loader:
            try:
                TRAIN
            except torch.cuda.OutOfMemoryError:
                torch.cuda.empty_cache()  # here
        """,
        refused="belongs to the error handler",
    ),
)
