"""Work that a loop repeats: found where nothing that it depends on changes, and only there."""

import ast
from textwrap import dedent

import pytest

from perftui.script.program import parse_program
from perftui.script.unchanged import repeated_at

IMPORTS = "import math\nimport torch\nfrom torch import nn\nimport numpy as np\nimport psutil\n"

ATTENTION = """
    class Attention(nn.Module):
        def __init__(self, dim):
            self.keys, self.query, self.dim = nn.Linear(dim, dim), nn.Linear(dim, dim), dim
        def forward(self, state, memory):
            return torch.tanh(self.keys(memory) + self.query(state))  # here
    class Decoder(nn.Module):
        def __init__(self):
            self.attention = Attention(8)
        def forward(self, x, state):
            memory = self.encode(x)
            for t in range(9):  # loop
                state = self.attention(state, memory)
            return state
    model = Decoder()
    for x in loader:
        model(x, first).sum().backward()
        optimizer.step()
"""
LAYERS = """
    class Layer(nn.Module):
        def __init__(self, dim):
            self.line = nn.Linear(dim, dim)
        def forward(self, graph, x):
            return torch.mm(graph.adjacency(), self.line(x))
    class Graph:
        def __init__(self, edges):
            self.edges = edges
        def adjacency(self):
            row, col = self.edges
            degrees = torch.zeros(9).index_add_(0, row, torch.ones(9))
            return torch.sparse_coo_tensor(self.edges, degrees[row])  # here
    class Model(nn.Module):
        def __init__(self):
            self.layers = nn.ModuleList([Layer(8), Layer(8)])
        def forward(self, graph, x):
            for layer in self.layers[:-1]:
                x = layer(graph, x)
            return self.layers[-1](graph, x)
    model, graph = Model(), Graph(edges)
    for epoch in range(100):  # loop
        model(graph, x).sum().backward()
        optimizer.step()
"""
BATCHES = LAYERS.replace("for epoch in range(100)", "for graph in graphs")
VIEWS = """
    def view(x):
        return x + torch.randn(3)
    class Net(nn.Module):
        def __init__(self):
            self.line = nn.Linear(3, 3)
        def forward(self, x):
            return self.line(x)  # here
    net = Net()
    for x in loader:
        loss = contrast(net(view(x)), net(view(x)))
        loss.backward()
        optimizer.step()
"""
TWICE = """
    class Layer(nn.Module):
        def forward(self, edges, x):
            return torch.mm(torch.sparse_coo_tensor(edges, ones), x)  # here
    class Model(nn.Module):
        def __init__(self):
            self.first, self.second = Layer(), Layer()
        def forward(self, edges, x):
            x = self.first(edges, x)  # loop
            return self.second(edges, x)
"""
BUFFER = """
    class Buffer:
        def __init__(self):
            self.games = [Game() for _ in range(9)]
        def draw(self):
            probs = np.array([game.weight for game in self.games])  # here
            probs /= probs.sum()
            return rng.choice(len(self.games), p=probs)
        def batch(self):
            rows = []
            for _ in range(128):  # loop
                game = self.draw()
                rows.append(game)
            return rows
"""
SAMPLES = """
    class Windows(Dataset):
        def __init__(self, series):
            self.series, self.cached = series, None
        def features(self):
            return np.vstack([np.sin(self.series), np.cos(self.series)])
        def __getitem__(self, i):  # loop
            features = self.features()  # here
            return features[:, i:i + 96]
"""
FROZEN = """
    encoder = nn.Sequential(nn.Linear(8, 8)).eval()
    optimizer = torch.optim.SGD(model.parameters())
    loader = DataLoader(TensorDataset(images), shuffle=True)
    for epoch in range(9):
        for (batch,) in loader:  # loop
            model(encoder(batch)).sum().backward()  # here
            optimizer.step()
"""
MASKS = """
    class Tokens:
        def __init__(self, names):
            self.names = names
        @property
        def special(self):
            found = []
            for name in self.names:
                found.append(name)
            return list(found)  # here
        def mask(self, ids):
            return [i in self.special for i in ids]  # loop
"""
ROLLOUT = """
    def view(x):
        return x + torch.randn(3)
    def advantages(rewards, values):
        sums, last = torch.zeros_like(rewards), 0
        for t in reversed(range(128)):
            last = rewards[t] + 0.9 * last - values[t]
            sums[t] = last  # here
        return sums
    while True:
        rewards, values = collect(model)
        for part in indices.split(64):  # loop
            weights = advantages(rewards, values)
            loss(weights[part]).backward()
            optimizer.step()
"""
EPOCHS = """
    class Batches:
        def __init__(self, texts, words):
            self.texts, self.words = texts, words
        def make(self):
            for text in self.texts:
                yield np.array([self.words.get(word, 1) for word in text])
        def epoch(self):
            batches = list(self.make())  # here
            random.shuffle(batches)
            yield from batches
    class Words:
        def __init__(self, index):
            self.index = index
        def get(self, word, other):
            return self.index.get(word, other)
    batches, step = Batches(texts, Words(index)), 0
    while step < 100:  # loop
        for batch in batches.epoch():
            model(batch).backward()
            optimizer.step()
            step += 1
"""


SHARED = """
    class Block(nn.Module):
        def __init__(self, nodes):
            self.nodes, self.line = nodes, nn.Linear(8, 8)
        def forward(self, x):
            graph = torch.softmax(self.nodes @ self.nodes.t(), 1)  # here
            return graph @ self.line(x)
    class Net(nn.Module):
        def __init__(self):
            nodes = nn.Parameter(torch.randn(99, 8))
            self.blocks = nn.ModuleList([Block(nodes) for number in range(4)])
        def forward(self, x):
            for block in self.blocks:  # loop
                x = block(x)
            return x
    net = Net()
    for x in loader:
        net(x).sum().backward()
        optimizer.step()
"""
LISTED = SHARED.replace("[Block(nodes) for number in range(4)]", "[Block(nodes), Block(nodes)]")
CONSTANT = """
    class Spread(nn.Module):
        def __init__(self, graph):
            self.register_buffer("graph", graph)
            self.line = nn.Linear(8, 8)
        def forward(self, x):  # loop
            degree = self.graph.sum(1).rsqrt()
            even = degree[:, None] * self.graph * degree[None]  # here
            return even @ self.line(x)
    net = nn.Sequential(*[Spread(graph) for number in range(4)])
    for x in loader:
        net(x).sum().backward()
        optimizer.step()
"""
SEARCH = """
    class Tower(nn.Module):
        def __init__(self):
            self.line = nn.Linear(8, 8)
        def forward(self, x):
            return self.line(x)
    def search(tower, queries, gallery):
        found = []
        for query in queries:  # loop
            for begin in range(0, len(gallery), 64):
                found.append(query @ tower(gallery[begin:begin + 64]).t())  # here
        return found
    tower = Tower()
    search(tower, queries, gallery)
"""


def repeated(text: str) -> str | None:
    """What is repeated at the line that ends in ``# here``; its loop has to end in ``# loop``."""
    lines = f"{IMPORTS}{dedent(text)}".split("\n")
    here, loop = (
        next((at for at, line in enumerate(lines, 1) if line.endswith(mark)), None)
        for mark in ("# here", "# loop")
    )
    assert here is not None
    found = repeated_at(parse_program("\n".join(lines).encode()), here)
    assert found is None or getattr(found.loop, "lineno", None) == loop
    return ast.unparse(found.work) if found else None


@pytest.mark.parametrize(
    ("text", "work"),
    [
        (ATTENTION, "self.keys(memory)"),
        (LAYERS, "graph.adjacency()"),
        (TWICE, "torch.sparse_coo_tensor(edges, ones)"),
        (BUFFER, "np.array([game.weight for game in self.games])"),
        (SAMPLES, "self.features()"),
        (FROZEN, "encoder(batch)"),
        (MASKS, "self.special"),
        (ROLLOUT, "advantages(rewards, values)"),
        (EPOCHS, "self.make()"),
        (SHARED, "torch.softmax(self.nodes @ self.nodes.t(), 1)"),
        (LISTED, "torch.softmax(self.nodes @ self.nodes.t(), 1)"),
        (CONSTANT, "degree[:, None] * self.graph * degree[None]"),
        (SEARCH, "tower(gallery[begin:begin + 64]).t()"),
    ],
)
def test_what_stays_the_same_is_found(text: str, work: str) -> None:
    assert repeated(text) == work


@pytest.mark.parametrize(
    ("text", "now", "then"),
    [
        (ATTENTION, "state = self.attention", "state, memory = self.attention"),
        (ATTENTION, "state = self.attention(state, ", "memory[t] = self.attention(t, "),
        (ATTENTION, "self.attention(state, memory)", "self.attention(state, memory[t])"),
        (BATCHES, "[:-1]", "[:-2]"),
        (LAYERS, "optimizer.step()", "graph.edges = drop(graph.edges)"),
        (LAYERS, "row, col = self.edges", "row, col = dropout_edge(self.edges)"),
        (LAYERS, "            return torch.sparse_coo", "            self.made = torch.sparse_coo"),
        (BUFFER, "rows.append(game)", "self.games[game].weight = 0"),
        (ROLLOUT, "    while True:", "    o = torch.optim.SGD([values])\n    while True:"),
        (BUFFER, "game.weight for", "draw.gauss(0, 1) for"),
        (VIEWS, "Net()", "Net().train()"),
        (ROLLOUT, "loss(weights[part])", "values.step(); loss(weights[part])"),
        (ROLLOUT, "loss(weights[part])", "won = values.perform(weights); loss(won)"),
        (TWICE, "self.second(edges, x)", "self.second(edges[:, x], x)"),
        (SAMPLES, "features = self", "if self.cached is None: self.cached = self"),
        (SAMPLES, "self.features()  ", "self.features(i)  "),
        (FROZEN, "SGD(model", "SGD(encoder"),
        (FROZEN, "TensorDataset(images)", "ImageFolder(images, augment)"),
        (FROZEN, "optimizer.step()", "average(encoder.parameters(), model)"),
        (FROZEN, ".eval()", ""),
        (MASKS, "found.append(name)", "self.names.append(name)"),
        (ROLLOUT, "= advantages(rewards, values)", "= advantages(view(rewards), values)"),
        (ROLLOUT, "= advantages(rewards, values)", "= advantages(rewards[part], values)"),
        (ROLLOUT, "torch.zeros_like(rewards), 0", "torch.zeros(9), psutil.cpu_percent(0.1)"),
        (ROLLOUT, "            loss(weights", "            rewards = loss(weights"),
        (EPOCHS, "self.index.get(word, other)", "draw.choice(self.index)"),
        (EPOCHS, "self.texts:", "self.loader:"),
        (EPOCHS, "yield np", "self.made = yield np"),
        (EPOCHS, "step += 1", "batches.texts = texts[step:]"),
        (SHARED, "[Block(nodes) for number", "[Block(nodes[number]) for number"),
        (SHARED, "[Block(nodes) for number", "[Block(nn.Parameter(nodes)) for number"),
        (SHARED, "self.nodes.t()", "x.t()"),
        (SHARED, "x = block(x)", "x = block(x); block.nodes.mul_(0.9)"),
        (CONSTANT, 'self.register_buffer("graph", graph)', "self.graph = nn.Parameter(graph)"),
        (CONSTANT, "return even", "self.graph = even; return even"),
        (SEARCH, "tower(gallery[begin:begin + 64])", "tower(gallery[begin] + query)"),
        (SEARCH, "range(0, len(gallery), 64)", "torch.randperm(len(gallery))"),
        (ATTENTION, "self.keys(memory)", "math.log(memory.numel())"),
    ],
)
def test_what_may_change_is_not(text: str, now: str, then: str) -> None:
    assert now in text
    assert repeated(text.replace(now, then)) is None


NET = "class Net(nn.Module):\n    def __init__(self):\n        self.line = nn.Linear(8, 8)\n"
NET += "    def forward(self, x):\n        return self.line(x)\nnet, other = Net(), Net()\n"


@pytest.mark.parametrize(
    ("body", "is_same"),
    [
        ("a = net(x)  # loop; b = net(x)  # here; (a + b).backward()", True),
        ("a = net(x); b = net(y)  # here; (a + b).backward()", False),
        ("a = net(augment(x)); b = net(augment(x))  # here; (a + b).backward()", False),
        ("a = net(x); b = net(x + noise)  # here; (a + b).backward()", False),
        ("a = net(x); x = x * 2; b = net(x)  # here; (a + b).backward()", False),
        ("a = net(x); x.mul_(2); b = net(x)  # here; (a + b).backward()", False),
        ("a = net(x); x[0] = 0; b = net(x)  # here; (a + b).backward()", False),
        ("a = net(x); x += 1; b = net(x)  # here; (a + b).backward()", False),
        ("a = net(x); perturb(x); b = net(x)  # here; (a + b).backward()", False),
        ("a = net(x); net.eval(); b = net(x)  # here; (a + b).backward()", False),
        ("a = net(x); net.scale = 2; b = net(x)  # here; (a + b).backward()", False),
        ("a = net(x); a.backward(); b = net(x)  # here; b.backward()", False),
        ("a = net(x); minimizer.step(); b = net(x)  # here; b.backward()", False),
        ("a = net(x); b = other(x)  # here; (a + b).backward()", False),
        ("a = net(x, 0); b = net(x, 1)  # here; (a + b).backward()", False),
        ("a = [net(v) for v in (x, y)]  # here; sum(a).backward()", False),
        ("a = net(*x); b = net(*y)  # here; (a + b).backward()", False),
        ("drop = nn.Dropout(); a = net(x)  # loop; b = net(x)  # here; (a + b).backward()", True),
    ],
)
def test_a_call_is_the_same_as_one_before(body: str, is_same: bool) -> None:
    inside = "".join(f"    {one}\n" for one in body.split("; "))
    text = f"{NET}for x, y in loader:\n{inside}    optimizer.step()\n"
    assert repeated(text) == ("net(x)" if is_same else None)
