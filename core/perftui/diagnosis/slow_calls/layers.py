"""Layers and networks: work of a forward pass that is done one by one, or more than needed."""

from __future__ import annotations

from perftui.diagnosis.slow_calls import sources
from perftui.diagnosis.slow_calls.models import SLOW
from perftui.diagnosis.slow_calls.row import SlowCall

_TORCH = r"^$|^torch/"
"""The line itself, or a function of torch that it calls."""

ROWS = (
    SlowCall(
        "gates-one-by-one",
        "each gate of a recurrent cell has products of its own, at each of {over}",
        "compute what reads the input alone for all steps before the loop, and all gates with "
        "one product: their weights joined (torch.cat), the result cut by chunk(); nn.LSTM or "
        "nn.GRU where the cell is one",
        sources.CELLS,
        "*",
        loop=r"carry",
        within=r"(?=[\s\S]*sigmoid\([\s\S]*sigmoid\()[\s\S]*self\.(\w+)\((\w+)\)[\s\S]{0,250}sel"
        r"f\.(?!\1\b)\w+\(\2\)[\s\S]{0,250}self\.(?!\1\b)\w+\(\2\)",
        rules=SLOW,
        where="step evaluation",
    ),
    SlowCall(
        "recurrence-with-factors",
        "a state is multiplied by a factor of each step and added to, step by step",
        "with factors a and terms b along dim 1 all states come in log2(steps) rounds, k = 1, "
        "2, 4, ...: b = torch.cat((b[:, :k], b[:, k:] + a[:, k:] * b[:, :-k]), 1); a = "
        "torch.cat((a[:, :k], a[:, k:] * a[:, :-k]), 1); b then holds the states of a start at "
        "0, and what reads them is computed once for all",
        sources.SCAN,
        "*",
        loop=r"^(time steps|steps|columns)? ?carry",
        within=r"for (\w+) in [^\n]*:\n[\s\S]*\b(\w+) = (?:(?:[\w.]+ \* )*[\w.]+(?:\([^()\n]*)?"
        r"\[[^\]\n]*\b\1\b[^\]\n]*\]\)?(?: \* [\w.]+)* \* \2 \+ (?![^\n]*\b\2\b)(?:[^\n]*\[[^\]"
        r"\n]*\b\1\b|delta)[^\n]*|(?:delta\w*|[\w.]+\[[^\]\n]*\b\1\b[^\]\n]*\]) \+ (?:[\w.]+ \* "
        r")*[\w.]+\[[^\]\n]*\b\1\b[^\]\n]*\](?: \* [\w.]+)* \* \2)(?:\n|\Z)",
        rules=SLOW,
        where="step evaluation",
    ),
    SlowCall(
        "hypotheses-one-by-one",
        "the network is called for one hypothesis after another",
        "stack those of a beam as one batch, call it once for each length, and choose with one "
        "topk of all their scores",
        sources.KV_CACHE,
        "*",
        frames=r"^torch/nn/modules/module\.py",
        in_loop=True,
        given=r"^[\w.]+\([^\n]*\b(beam|hyp|cand)",
        within=r"for [^\n]* in (enumerate\()?[\w.]*(beam|hyp|candidate)\w*[^\n]*:\n",
        where="step evaluation",
    ),
    SlowCall(
        "generated-without-cache",
        "each new token is computed with all that come before it, whose keys and values are the "
        "same again",
        "keep them: give each attention the keys and values of earlier positions "
        "(past_key_values, use_cache=True of transformers), and call the model with the newest "
        "token alone",
        sources.KV_CACHE,
        "*",
        frames=r"^torch/nn/modules/module\.py",
        in_loop=True,
        within=r"\A(?![\s\S]*(past|cache))[\s\S]*(for|while) [^\n]*:\n(?=[\s\S]*(multinomial|arg"
        r"max|topk|\.sample\())[\s\S]*\b(\w+) = torch\.cat\([\[(]\4, ",
        where="step evaluation",
    ),
    SlowCall(
        "relative-keys-for-pairs",
        "each query is multiplied by a vector for each other position, though pairs of one "
        "offset share theirs",
        "multiply by the table of offsets once, q @ table.t(), which has a row for each of the "
        "2 n - 1, and gather the products by offset",
        sources.RELATIVE,
        "torch.einsum",
        frames=_TORCH,
        given=r"einsum\('(\w*)(\w)(\w), ?\2(\w)\3 ?-> ?\1\2\4'",
        within=r"(?i)distance|relative|rel_|offset",
        where="step evaluation",
    ),
    SlowCall(
        "ends-repeated-for-pairs",
        "the features of both ends are repeated for all pairs of nodes, joined and multiplied",
        "multiply each node once, by both halves of the weight, and broadcast: (h @ a[:d]) + (h "
        "@ a[d:]).T, before the activation",
        sources.GAT,
        "torch.cat *.repeat *.repeat_interleave torch.matmul *.matmul *.view *.__op__ torch.mm "
        "*.__call__",
        frames=_TORCH,
        within=r"\b(\w+)\.repeat\(1, [^\n]*\)[\s\S]*\b\1\.repeat\(\w[^,()\n]*, 1\)|\b(\w+)\.repe"
        r"at_interleave\([^\n]*\n[^\n]*\b\2\.repeat\(\w[^,()\n]*, 1\)",
        where="step evaluation",
    ),
    SlowCall(
        "edges-of-each-neighbour",
        "a point's own features and the differences to its neighbours are laid out for each "
        "neighbour, to be multiplied by the next layer",
        "multiply the points first: the layer's weight cut in two, (w_a @ x) gathered at the "
        "neighbours plus ((w_b - w_a) @ x) of the point itself, gives the same with 1 / k of "
        "the products",
        sources.MESSAGES,
        "torch.cat *.permute *.contiguous *.__op__ *.repeat *.__getitem__ *.__call__",
        frames=_TORCH,
        within=r"(\[\w*(idx|index|neigh)|gather|knn)[\s\S]*torch\.cat\([\[(](?:(\w+) - (\w+), \4"
        r"|(\w+), \w+ - \5)[\])]",
        where="step evaluation",
    ),
    SlowCall(
        "product-with-diagonal",
        "a matrix is multiplied by a whole matrix that is zero but for its diagonal",
        "scale its rows and columns: d[:, None] * a * d for diag(d) @ a @ diag(d)",
        sources.BROADCASTING,
        "torch.mm torch.matmul torch.bmm *.mm *.matmul *.bmm *.__op__ torch.diag "
        "torch.diag_embed torch.linalg.multi_dot",
        frames=_TORCH,
        given=r"\b([dDsS]|\w*(diag|deg|inv|sqrt|_hat|norm)\w*)\b",
        within=r"[@] torch\.(?:diag_embed\(|diag\((?:[sSdD]|\w*(?:deg|sigma|lam|eig|sing|inv_?sq"
        r"rt)\w*|[^\n]*(?:\.sum\(|\*\* -|pow\(|sqrt\(|\.exp\()[^\n]*)\))|torch\.(?:diag_embed\(["
        r"^\n]*\)|diag\((?:[sSdD]|\w*(?:deg|sigma|lam|eig|sing|inv_?sqrt)\w*|[^\n]*(?:\.sum\(|\*"
        r"\* -|pow\(|sqrt\(|\.exp\()[^\n]*)\)) @ |(?:mm|matmul|bmm)\(torch\.(?:diag_embed\(|diag"
        r"\((?:[sSdD]|\w*(?:deg|sigma|lam|eig|sing|inv_?sqrt)\w*|[^\n]*(?:\.sum\(|\*\* -|pow\(|s"
        r"qrt\(|\.exp\()[^\n]*)\))|\b(\w+) = torch\.(?:diag_embed\([^\n]*|diag\((?:[sSdD]|\w*(?:"
        r"deg|sigma|lam|eig|sing|inv_?sqrt)\w*|[^\n]*(?:\.sum\(|\*\* -|pow\(|sqrt\(|\.exp\()[^\n"
        r"]*)\))\n[\s\S]*(?:\b\1 @ |@ \1\b|(?:mm|matmul|bmm)\((?:[^\n]*, )?\1\b)",
        where="step evaluation",
    ),
    SlowCall(
        "power-multiplied-whole",
        "a power of a matrix is computed whole, to multiply by it",
        "multiply from the right, once for each factor: a @ (a @ x), if x has fewer columns than a",
        sources.CHAINS_OF_PRODUCTS,
        "torch.mm torch.matmul torch.bmm *.__op__ torch.matrix_power torch.linalg.matrix_power "
        "*.mm *.matmul",
        frames=_TORCH,
        given=r"(?<![\w.])([\w.]+) @ \1 @ (?!\1\b)[\w.(]|(mm|matmul)\(torch\.(mm|matmul)\(([\w.]"
        r"+), \4\), (?!\4\b)|matrix_power\([^()]*\) @ |(mm|matmul)\(torch\.(linalg\.)?matrix_pow"
        r"er\(",
        # With x as large as a, as in iterations for a root, nothing is gained.
        within=r"\A(?![\s\S]*\beye\()",
        where="step evaluation",
    ),
    SlowCall(
        "polynomials-of-matrix",
        "polynomials of a matrix are computed as matrices, to multiply each of them",
        "apply the recursion to the features, which have fewer columns: x_k = 2 * a @ x_(k - 1) "
        "- x_(k - 2), from x_0 = x and x_1 = a @ x",
        sources.CHEBYSHEV,
        "torch.matmul torch.mm *.matmul *.mm *.__op__ torch.einsum torch.stack",
        frames=_TORCH,
        within=r"\b(\w+) = \[torch\.eye\([\s\S]*(matmul|mm)\(2(\.0)? \* [\w.]+, \1\[-1\]\) - \1"
        r"\[-2\]|\b(\w+) = \[torch\.eye\([\s\S]*2(\.0)? \* [\w.]+ @ \4\[-1\] - \4\[-2\]",
        where="step evaluation",
    ),
    SlowCall(
        "filtered-by-channel",
        "{call} is called for one channel after another",
        "make one call: with groups=channels and a filter for each, or, where all share one, "
        "with the channels as samples: {call}(x.flatten(0, 1)[:, None], filter).unflatten(0, "
        "x.shape[:2])",
        sources.GROUPS,
        "torch.nn.functional.conv1d torch.nn.functional.conv2d torch.nn.functional.conv3d "
        "torch.conv1d torch.conv2d",
        frames=_TORCH,
        in_loop=True,
        given=r"conv\dd\(\w+\[(\.\.\.|:), (\w+)(:\2 \+ 1\]|, None|\]\.unsqueeze\(1\)|\]\[:, None"
        r")|conv\dd\(\w+\[:, \[\w+\]",
        where="step evaluation",
    ),
    SlowCall(
        "filtered-by-sample",
        "{call} is called for one sample after another, with a filter of its own for each",
        "join the samples to the channels, and call it once: {call}(x.flatten(0, 1)[None], "
        "weight.flatten(0, 1), groups=len(x)), with the result unflattened again",
        sources.GROUPS,
        "torch.nn.functional.conv1d torch.nn.functional.conv2d "
        "torch.nn.functional.conv_transpose2d torch.conv2d torch.conv1d",
        frames=_TORCH,
        in_loop=True,
        given=r"conv(_transpose)?\dd\((\w+)\[(\w+)(:\3 \+ 1)?\](\.unsqueeze\(0\)|\[None\])?, [\w"
        r".]+\[\3",
        where="step evaluation",
    ),
    SlowCall(
        "products-by-sample",
        "a product is computed for each index by itself, with a matrix of its own",
        "make one call for all: torch.bmm of both as batches (x[:, None] where a sample is a "
        "vector), or torch.einsum with a letter for the index",
        sources.BMM,
        "torch.nn.functional.linear torch.mm torch.matmul torch.mv *.__op__",
        loop=r"free",
        given=r"^((F|torch)[\w.]*\.)?(linear|mm|matmul|mv)\(\w+\[(\w+)\](\.\w+\(\))?, \w+\[\4\]("
        r"\.\w+\(\)|\.T)?(, \w+\[\4\])?\)|^\w+\[(\w+)\] @ \w+\[\7\](\.\w+\(\)|\.T)?$",
        where="step evaluation",
    ),
    SlowCall(
        "pooled-by-unfold",
        "all windows are copied out of the image, each pixel once for each that it is in, to "
        "reduce them",
        "pool: F.max_pool2d(x, size, stride=1, padding=...), avg_pool2d for means, and "
        "-F.max_pool2d(-x, ...) for minima",
        sources.POOLING,
        "torch.nn.functional.unfold *.max *.amax *.mean *.min *.amin *.view *.reshape torch.max "
        "torch.mean torch.amax",
        frames=_TORCH,
        within=r"\bF\.unfold\([^\n]*\)(\.(view|reshape)\([^()\n]*\))?\.(max|amax|min|amin|mean)"
        r"\(|\b(\w+) = (F|nn\.functional|torch\.nn\.functional)\.unfold\([^\n]*\n[\s\S]{0,200}("
        r"\b\4(\.(view|reshape)\([^\n()]*\))?\.(max|amax|min|amin|mean)\(|torch\.(max|amax|mean)"
        r"\(\4\b)",
        where="step evaluation",
    ),
    SlowCall(
        "averaged-by-unfold",
        "overlapping windows are added up one by one, and backward adds all their gradients up",
        "pool: F.avg_pool1d(x.transpose(1, 2), size, stride=1), times the size for a sum; or take "
        "differences of x.cumsum(dim)",
        sources.UNFOLD_BACKWARD,
        "*.mean *.sum",
        frames=_TORCH,
        given=r"\.unfold\(-?\d, [^()]+, 1\)\.(mean|sum)\((dim=)?(-1|3)\)$",
        where="step evaluation",
    ),
    SlowCall(
        "convolved-by-unfold",
        "a convolution is made of copied windows and a product, with memory for each pixel as "
        "often as windows hold it",
        "call F.conv2d(x, weight, stride=..., padding=...), with groups= where channels are apart",
        sources.GROUPS,
        "torch.nn.functional.unfold torch.matmul *.matmul *.__op__ torch.einsum "
        "torch.nn.Unfold.__call__ *.__call__",
        frames=_TORCH,
        within=r"\b(\w+) = (F|nn\.functional|torch\.nn\.functional|self)\.unfold\([^\n]*\n[\s\S]"
        r"{0,300}(self\.\w*weight\w*(\.\w+\([^()\n]*\))* @ \1\b|(matmul|einsum)\([^\n]*self\.\w*"
        r"weight[^\n]*\b\1\b|(matmul|einsum)\([^\n]*\b\1\b[^\n]*self\.\w*weight|\b\1[^\n]* @ sel"
        r"f\.\w*weight)",
        where="step evaluation",
    ),
    SlowCall(
        "nms-by-hand",
        "boxes are suppressed one by one in Python, each time compared with all that are left",
        "use torchvision.ops.nms(boxes, scores, threshold), or batched_nms with the class of each",
        sources.NMS,
        "*",
        frames=r"^$|^torch/|^numpy/|^torchvision/",
        in_loop=True,
        within=r"while [^\n]*:\n(?=[\s\S]*\[0\])(?=[\s\S]*(iou|inter|overlap))[\s\S]*(<|<=) [\w."
        r"]*(thr|iou|nms|overlap)",
        where="step evaluation item",
    ),
    SlowCall(
        "frequencies-one-by-one",
        "sines and cosines are computed frequency by frequency",
        "multiply by all frequencies at once: a = x[..., None, :] * freqs[:, None]; "
        "torch.cat((a.sin(), a.cos()), -1).flatten(-2)",
        sources.FOURIER,
        "*",
        frames=_TORCH,
        in_loop=True,
        within=r"(?i)for [^\n]* in [^\n]*(freq|harmonic|octave|bands)(?=[\s\S]*(sin|cos|fn)\b)|("
        r"sin|cos)\([^\n]*for \w+ in [^\n]*(freq|harm|octave|bands)|for \w+ in self\.\w*(embed|p"
        r"eriodic)_fns",
        rules=SLOW,
        where="step evaluation",
    ),
    SlowCall(
        "net-for-each-frame",
        "{call} is called for each of {over}, though none needs another's result",
        "join the steps to the batch and call it once: {call}(x.flatten(0, 1)).unflatten(0, "
        "x.shape[:2])",
        sources.VECTORIZE,
        "*",
        loop=r"^(time steps|columns) free(?!.*(loss|decoded))",
        given=r"^(self\.\w+(\.\w+)*|\w*(net|model|encoder|backbone|cnn|conv|extractor|decoder)\w"
        r"*)\(\w+\[(\.\.\.|:), \w+(, (\.\.\.|:))*\]\)$",
        without=r"(?i)loss|criterion",
        rules=SLOW,
        where="step evaluation",
    ),
    SlowCall(
        "passes-repeated",
        "the network is called in each turn, and no call needs another's result",
        "join the inputs of all turns to one batch, model(x.repeat(turns, *[1] * (x.dim() - "
        "1))).unflatten(0, (turns, -1)), and compute what comes before the first dropout or "
        "draw once",
        sources.ENSEMBLE,
        "*",
        loop=r"^(repeats|items)? ?free",
        given=r"^(self|self\.\w+|\w*(net|model|encoder|decoder|flow|forward)\w*)\(\w+(, \w+(=\w+"
        r")?)?\)$",
        within=r"\A(?![\s\S]*(next\(|loader|get_batch|batch\())[\s\S]*for _ in range\(",
        without=r"(?i)loss|criterion",
        rules=SLOW,
        where="step evaluation",
    ),
    SlowCall(
        "views-one-by-one",
        "the network is called for one view of the batch after another",
        "join views of one size to one batch, and cut the result: torch.cat(views), then "
        ".chunk(len(views)); batch norm then takes its statistics over all of them",
        sources.CROPS,
        "*",
        frames=r"^torch/nn/modules/module\.py",
        in_loop=True,
        given=r"^[\w.]+\(\w+\)$",
        within=r"for \w+ in [\w.]*(crops|views)\b",
        rules=SLOW,
        where="step evaluation",
    ),
    SlowCall(
        "guided-by-two-passes",
        "the network is called twice, with the condition and without it",
        "call it once on a batch of both, and cut the result: model(torch.cat((x, x)), "
        "torch.cat((t, t)), torch.cat((condition, none))).chunk(2)",
        sources.GUIDANCE,
        "*",
        frames=r"^torch/nn/modules/module\.py",
        given=r"^[\w.]+\([^\n]*,",
        within=r"\A(?=[\s\S]*\b(\w+) \+ [^\n=]*\* \((\w+) - \1\))(?=[\s\S]*\b\1 = ([\w.]+)\()(?="
        r"[\s\S]*\b\2 = \3\()|\A(?=[\s\S]*\(1(?:\.0)? \+ ([\w.]+)\) \* (\w+) - \4 \* (\w+))(?=["
        r"\s\S]*\b\5 = ([\w.]+)\()(?=[\s\S]*\b\6 = \7\()",
        where="step evaluation",
    ),
    SlowCall(
        "sampled-by-denoising",
        "an image is sampled with a call of the network for each step of the schedule",
        "sample rarely, many images as one batch, and with a solver of 10 to 50 steps (DDIM, "
        "DPM-Solver) in place of all of them",
        sources.DDIM,
        "*",
        frames=r"^torch/nn/modules/module\.py",
        given=r"(?i)^[\w.]*(model|net|eps|denois|score|predict|p_sample|forward)\w*\(",
        within=r"\A(@.*\n)*def \w*(sampl|denois|generate|reverse|ddpm)\w*\([\s\S]*for \w+(, \w+)"
        r"? in [^\n]*(reversed\(|timesteps|, -1, -1|, 0, -1)",
        where="step evaluation",
    ),
    SlowCall(
        "embedding-then-reduced",
        "rows of a table are gathered to a large tensor, and then summed up",
        "use nn.EmbeddingBag(..., mode='sum' or 'mean'), or F.embedding_bag(ids, weight, "
        "mode=...), which adds them without it (per_sample_weights= or padding_idx= leave "
        "padding out)",
        sources.BAGS,
        "*",
        frames=_TORCH,
        within=r"\bself\.\w*emb\w*\([\w.]+\)\.(sum|mean)\((dim=)?(1|-2)\)|torch\.(sum|mean)\(sel"
        r"f\.\w*emb\w*\([\w.]+\), (dim=)?(1|-2)\)|\b(\w+) = self\.\w*emb\w*\([\w.]+\)\n(?=[\s\S]"
        r"*(\b\7\.(sum|mean)\((dim=)?(1|-2)\)|torch\.(sum|mean)\(\7, (dim=)?(1|-2)\)))(?![\s\S]*"
        r"\b\7\b[\s\S]*\b\7\b)",
        given=r"(?i)emb|\.(sum|mean)\(|torch\.(sum|mean)\(",
        where="step evaluation",
    ),
    SlowCall(
        "tables-one-by-one",
        "a table is looked up for each column by itself",
        "keep the rows of all tables (of one width) in one nn.Embedding, and add to each column "
        "where its own begin: table(x + offsets), offsets = F.pad(sizes.cumsum(0)[:-1], (1, 0))",
        sources.TABLES,
        "*",
        loop=r"^modules free",
        within=r"for [^\n]*\b\w*emb\w*\b[^\n]* in |\w*emb\w*\[\w+\]\(\w",
        given=r"\(\w+\[",
        rules=SLOW,
        where="step evaluation",
    ),
    SlowCall(
        "columns-by-layers",
        "a layer is called for each column by itself, on one number of each sample",
        "keep one weight for all columns: x[..., None] * weight + bias for the first layer, "
        "with a row of both for each, and torch.einsum or torch.bmm for more",
        sources.HEADS,
        "*",
        loop=r"^modules free",
        given=r"\(\w+\[(:|\.\.\.), (\w+)(:\2 \+ 1\]|, None\]|\]\.unsqueeze\(-?1\)|\]\[:, None\]|"
        r"\]\.view\(-1, 1\))",
        rules=SLOW,
        where="step evaluation",
    ),
    SlowCall(
        "interactions-by-pairs",
        "products of all pairs of fields are computed one by one",
        "where they are summed up, take half of the square of the sum less the sum of squares: "
        "0.5 * (e.sum(1) ** 2 - (e ** 2).sum(1)); else one product e @ e.mT, and of it the "
        "places torch.triu_indices(n, n, 1)",
        sources.FACTORISATION,
        "*",
        in_loop=True,
        frames=r"^",
        within=r"for (\w+) in range\([^\n]*:\n\s+for (\w+) in range\(\1 \+ 1, [^\n]*:\n[\s\S]*\b"
        r"(\w+)\[:, \1\] \* \3\[:, \2\]|\b(\w+)\[(\w+)\] \* \4\[(\w+)\][\s\S]*for \5[^\n]* in [^"
        r"\n]*for \6 in range\(\5 \+ 1",
        rules=SLOW,
        where="step evaluation",
    ),
    SlowCall(
        "one-hot-product",
        "rows of a table are taken by a product with a one-hot matrix, which multiplies mostly "
        "zeros",
        "look them up: F.embedding(indices, table); sums of rows by index, for one_hot.t() @ x, "
        "by torch.zeros(n, d).index_add_(0, indices, x)",
        sources.GATHER,
        "torch.matmul torch.mm *.__op__ *.scatter_ *.mm *.matmul torch.nn.functional.one_hot "
        "torch.zeros",
        frames=_TORCH,
        within=r"\b(\w+)\.scatter_\((?:dim=)?(?:1|-1), [^\n]*, 1(?:\.0)?\)\n(?![\s\S]*\b\1 - )["
        r"\s\S]*(?:matmul\(\1(?:\.t\(\)|\.T)?, |mm\(\1(?:\.t\(\)|\.T)?, |\b\1(?:\.t\(\)|\.T)? @ "
        r")|\b(\w+) = [^\n]*one_hot\([^\n]*\n(?![\s\S]*\b\2 - )[\s\S]*(?:matmul\(\2(?:\.t\(\)|\."
        r"T)?, |mm\(\2(?:\.t\(\)|\.T)?, |\b\2(?:\.t\(\)|\.T)? @ )",
        given=r"[@]|matmul|mm\(|scatter_|one_hot|zeros",
        where="step evaluation",
    ),
    SlowCall(
        "dispatched-by-products",
        "tokens are brought to experts by products with a mask of tokens x experts x places, "
        "which is mostly zeros",
        "gather them: x[order] with order = expert.argsort() and the counts of torch.bincount, "
        "and bring results back by index_add_",
        sources.DISPATCH,
        "torch.einsum",
        frames=_TORCH,
        given=r"einsum\('[^']*', [^()]*(dispatch|combine)",
        where="step evaluation",
    ),
    SlowCall(
        "outer-then-vector",
        "the outer product of two vectors is made for each sample, to multiply it by a third",
        "multiply the inner two first: x0 * (x @ w), as (x0 x') w is x0 (x' w)",
        sources.CHAINS_OF_PRODUCTS,
        "torch.bmm torch.matmul *.__op__ *.bmm *.matmul torch.mm",
        frames=_TORCH,
        within=r"\b(\w+) = torch\.(?:bmm|matmul)\(\w+\.unsqueeze\((?:2|-1)\), \w+\.unsqueeze\((?"
        r":1|-2)\)\)\n[\s\S]{0,80}(?:matmul|bmm|mm)\(\1, |\b(\w+) = \w+\.unsqueeze\((?:2|-1)\) @"
        r" \w+\.unsqueeze\((?:1|-2)\)\n[\s\S]{0,80}\b\2 @ ",
        where="step evaluation",
    ),
    SlowCall(
        "weight-copied-for-samples",
        "{call} makes a copy of the weight for each sample of the batch, and backward a "
        "gradient of each",
        "leave it once: torch.einsum with a letter for the sample in the input alone "
        "('jidk,bik->bjid')",
        sources.EINSUM_DOCS,
        "torch.stack torch.cat *.repeat",
        frames=_TORCH,
        given=r"(stack|cat)\(\[self\.\w+\] \* [\w.]|^self\.(W|w|weights?)(\[None[^\]]*\]|\.unsqu"
        r"eeze\(0\))?\.repeat\(\w*(batch|\bb\b|\bn\b|size)",
        where="step evaluation",
    ),
    SlowCall(
        "repeated-not-expanded",
        "{call} copies what is the same along a dimension",
        "use expand, with -1 in place of each 1: a view that copies nothing, and operators "
        "broadcast it",
        sources.EXPANDED,
        "*.repeat",
        native=True,
        given=r"(\.unsqueeze\(-?\d\)|\[[^\]]*None[^\]]*\])\.repeat\(",
        within=r"\A(?![\s\S]*\.repeat\([^()\n]*\)\.(view|reshape|flatten|contiguous))",
        least=0.5,
        where="step evaluation",
    ),
    SlowCall(
        "windows-by-slices",
        "windows are cut out and joined one by one",
        "take them as a view: x.unfold(dim, size, step), whose last dimension is the window",
        sources.UNFOLD,
        "torch.stack torch.cat *.__getitem__ *.append",
        frames=_TORCH,
        within=r"\[\w+\[(?:(?:\.\.\.|:), )*(\w+):\1 \+ [^\]\n]+\](?:\.\w+\([^()\n]*\))? for \1 i"
        r"n range\(|for (\w+) in range\([^\n]*:\n\s+\w+\.append\(\w+\[(?:(?:\.\.\.|:), )*\2:\2 "
        r"\+ [^\]\n]+\](?:\.\w+\([^()\n]*\))?\)\n",
        given=r"\bfor |:(\w+) \+ ",
        where="step evaluation",
    ),
    SlowCall(
        "blocks-made-whole",
        "{call} puts blocks into one matrix that is zero elsewhere",
        "multiply the blocks alone: torch.bmm of them stacked, with x.unflatten(-1, (blocks, "
        "-1)), or einsum",
        sources.BMM,
        "torch.block_diag",
        frames=_TORCH,
        where="step evaluation",
    ),
    SlowCall(
        "product-of-kron",
        "{call} makes the whole product of two matrices, of as many numbers as both have "
        "multiplied",
        "apply the factors one after the other: (a @ x.view(n, m) @ b.T).flatten() is kron(a, "
        "b) @ x",
        sources.KRON,
        "torch.kron",
        native=True,
        where="step evaluation",
        least=0.2,
    ),
    SlowCall(
        "outer-products-summed",
        "outer products are made and added up one by one",
        "one matrix product is their sum: x.t() @ y, with a vector in each row",
        sources.EINSUM_DOCS,
        "torch.outer torch.ger",
        native=True,
        in_loop=True,
        within=r"\+= [^\n]*torch\.(outer|ger)\(|\b(\w+) = \2 \+ [^\n]*torch\.(outer|ger)\(",
        where="step evaluation",
    ),
    SlowCall(
        "attentions-asked-for",
        "with output_attentions=True a model of transformers computes all weights of its "
        "attention as tensors, without the fused one",
        "leave it out in training, and ask for them in a pass of its own",
        sources.ATTENTIONS,
        "*",
        frames=r"transformers/|^torch/",
        given=r"output_attentions=True",
        where="step",
        least=0.2,
    ),
    SlowCall(
        "pruned-by-hook",
        "the mask is multiplied into the pruned weight before each call of its layer, and "
        "backward goes through it",
        "after the last pruning call prune.remove(module, 'weight'), and keep zeros with one "
        "torch._foreach_mul_(weights, masks) after each step of the optimizer",
        sources.PRUNING,
        frames=r"torch/nn/utils/prune\.py",
        where="step evaluation",
        least=0.3,
    ),
    SlowCall(
        "solved-without-factor",
        "{call} decomposes a triangular factor again, as if it were any matrix",
        "use torch.cholesky_solve(b, factor) for the whole matrix, or "
        "torch.linalg.solve_triangular(factor, b, upper=False) for the factor alone",
        sources.CHOLESKY,
        "torch.linalg.solve torch.inverse torch.linalg.inv *.inverse",
        frames=_TORCH,
        within=r"\b(\w+) = [^\n]*\bcholesky\([^\n]*\n[\s\S]*(?:(?:solve|inverse|inv)\(\1\b|\b\1"
        r"\.inverse\(\))",
        where="step evaluation",
    ),
    SlowCall(
        "decomposed-twice",
        "one matrix is decomposed for its determinant, and again to solve with it",
        "decompose it once: c = torch.linalg.cholesky(cov); 2 * c.diagonal(dim1=-2, "
        "dim2=-1).log().sum(-1) is its logdet, and torch.cholesky_solve(b, c) the solution "
        "(lu_factor and lu_solve of torch.linalg if it is not symmetric)",
        sources.CHOLESKY,
        "torch.logdet torch.slogdet torch.linalg.slogdet torch.det torch.linalg.det "
        "torch.inverse torch.linalg.inv torch.linalg.solve",
        frames=_TORCH,
        within=r"\b(?:logdet|slogdet|det)\((\w+)\)[\s\S]*\b(?:inverse|inv|pinv|solve)\(\1\b|\b(?"
        r":inverse|inv|pinv|solve)\((\w+)\b[\s\S]*\b(?:logdet|slogdet|det)\(\2\)",
        where="step evaluation",
    ),
    SlowCall(
        "table-copied-each-time",
        "a table is copied to the device as a whole, to take some numbers of it",
        "copy it once (register_buffer), and index it there",
        sources.TUNING,
        "torch.from_numpy torch.tensor torch.as_tensor torch.Tensor.to torch.Tensor.cuda *.to "
        "*.cuda",
        native=True,
        given=r"(from_numpy|tensor)\([\w.]+\)(\.float\(\))?\.(to|cuda)\(",
        within=r"(from_numpy|tensor)\([\w.]+\)(\.float\(\))?\.(to|cuda)\([^\n]*?\)\[\w+\]",
        waits=True,
        where="step",
    ),
    SlowCall(
        "fixed-point-recorded",
        "backward goes through every iteration towards the fixed point, though its gradient "
        "needs none of them",
        "run the iterations under torch.no_grad(), and one more with gradients from where they "
        "end; or solve for the gradient by iterations in a hook",
        sources.EQUILIBRIA,
        "*",
        frames=_TORCH,
        in_loop=True,
        within=r"(?i)\A(?![\s\S]*(no_grad|inference_mode))[\s\S]*(fixed_?point|equilibrium|\bdeq"
        r"_|anderson|broyden)",
        where="step",
        least=0.2,
    ),
    SlowCall(
        "routing-recorded",
        "backward goes through all iterations of the routing, with a copy of all votes for each",
        "use votes.detach() in all iterations but the last, whose weights alone then carry "
        "gradients",
        sources.ROUTING,
        "*",
        frames=_TORCH,
        in_loop=True,
        within=r"\A(?![\s\S]*(detach|no_grad|topk))[\s\S]*for \w+ in range\([^\n]*(rout|iter)\w*"
        r"\):\n(?=[\s\S]*softmax\()[\s\S]*\b(\w+) (= \3 \+|\+=) ",
        where="step",
    ),
    SlowCall(
        "products-in-dear-order",
        "a number for each pair of positions is made, though no softmax comes between the two "
        "products",
        "multiply keys and values first: q @ (k.mT @ v), which has none, and is less work where "
        "positions outnumber channels",
        sources.LINEAR_ATTENTION,
        "torch.matmul torch.bmm *.__op__ *.matmul *.bmm *.div *.size",
        frames=_TORCH,
        within=r"\b(\w+) = torch\.(?:matmul|bmm)\([^\n]*\)\n(?:\s+(?!\1\b)\w+ = \1\.(?:size|shap"
        r"e)[^\n]*\n)?\s+(\w+) = \1 / [\w.\[\]()-]+\n\s+(?:return |\w+ = )torch\.(?:matmul|bmm)"
        r"\(\2, |\bq\w* @ k\w*\.(?:transpose\(-2, -1\)|transpose\(-1, -2\)|mT) @ v",
        where="step evaluation",
    ),
    SlowCall(
        "layer-of-repeated",
        "what is the same for many positions is repeated, joined to each of them, and "
        "multiplied anew for each",
        "cut the weight of {call}, or of its first layer, by columns: multiply what is repeated "
        "once, and broadcast the sum: F.linear(x, weight[:, :d], bias) + F.linear(same, "
        "weight[:, d:])[:, None]",
        sources.MESSAGES,
        "*",
        frames=r"^torch/",
        given=r"^self\.(attn|attention|energy|fc\w*|lin\w*|proj\w*|mlp\w*|dense\w*|[wW][aA12]?)"
        r"\((\w*(cat|comb|join|pair)\w*\)|torch\.(cat|concat)\()",
        within=r"\b(\w+) = [^\n]*\.(?:expand|repeat|expand_as|repeat_interleave)\([^\n]*\n(?=[\s"
        r"\S]*(?:cat|concat)\([\[(](?:\1, |[^\n]*, \1[\]),]))",
        where="step evaluation",
    ),
    SlowCall(
        "heads-one-by-one",
        "attention is computed for one head after another",
        "give the heads a dimension, q.unflatten(-1, (heads, -1)).transpose(1, 2) and alike for "
        "k and v, and call F.scaled_dot_product_attention once",
        sources.HEADS_AT_ONCE,
        "*",
        loop=r"free",
        within=r"for (\w+) in range\([^\n]*heads?\w*\):\n[\s\S]*softmax\(",
        rules=SLOW,
        where="step evaluation",
    ),
    SlowCall(
        "inverse-by-dimension",
        "an autoregressive network is called on all of the input for one dimension after another",
        "train in the direction that one pass computes (the density of a masked flow, the "
        "samples of an inverse one), or use coupling layers, which have both in one",
        sources.FLOWS_INVERSE,
        "*",
        frames=r"^torch/nn/modules/module\.py",
        in_loop=True,
        given=r"^[\w.]+\(",
        within=r"\A(@.*\n)*def \w*(invers|sample|revers|decode|backward)\w*\([\s\S]*for (\w+) in"
        r" [^\n]*:\n[\s\S]*\[(\.\.\.|:), \3\] = ",
        where="step evaluation",
    ),
    SlowCall(
        "sampled-by-pixel",
        "an image is sampled pixel by pixel, with a pass over the whole image for each",
        "call it on the rows up to the pixel alone, image[:, :, :i + 1], since later ones do "
        "not matter to it; sample rarely, many images as one batch",
        sources.PIXELS_SAMPLED,
        "*",
        frames=r"^torch/nn/modules/module\.py",
        in_loop=True,
        given=r"^[\w.]+\(\w+(, \w+)?\)",
        within=r"for (\w+) in range\([^\n]*:\n\s+for (\w+) in range\([^\n]*:\n[\s\S]*\[:, (:, )?"
        r"\1, \2\] = ",
        where="step evaluation",
    ),
    SlowCall(
        "low-rank-made-dense",
        "two factors of a low rank are multiplied to a whole matrix in each call, and backward "
        "computes the gradient of all of it",
        "multiply by one after the other, (x @ a.t()) @ b.t(), and add that to what the frozen "
        "weight gives",
        sources.LOW_RANK,
        "torch.nn.functional.linear torch.matmul torch.mm *.__op__ *.matmul",
        frames=_TORCH,
        within=r"linear\(\w+, [^)\n]*self\.\w+(?:\.weight)? @ self\.\w+(?:\.weight)?\b|\b\w+ @ "
        r"\(self\.\w+(?:\.weight)? @ self\.\w+(?:\.weight)?\)|\b(\w+) = (?!self\.\w+\()[^\n]*"
        r"(?:self\.\w+(?:\.weight)? @ self\.\w+(?:\.weight)?\b|(?:matmul|mm)\(self\.\w+, self\.\w+"
        r"\))[^\n]*\n[\s\S]*linear\(\w+, \1\b",
        given=r"@|linear\(|matmul|mm\(",
        where="step",
    ),
    SlowCall(
        "relations-one-by-one",
        "messages are computed for one type of edges after another, each with a mask of all edges",
        "sort the edges by type once, before training, and multiply all by the weights of their "
        "types in one call (pyg_lib.ops.segment_matmul, torch._grouped_mm), or gather weights of "
        "a few bases",
        sources.RELATIONS,
        "*",
        in_loop=True,
        frames=r"^$|^torch/",
        within=r"for (\w+) in range\([^\n]*:\n[\s\S]*\b\w*(?:edge_?\w*|rel\w*|e)(?:type|rel|id|"
        r"attr|label)\w*(?:\[[^\]]*\])? == \1\b",
        where="step evaluation",
    ),
    SlowCall(
        "expanded-by-durations",
        "each sample's rows are repeated by themselves, as often as its durations say",
        "look up for each place of the result which row it repeats, for the whole batch: at = "
        "torch.searchsorted(durations.cumsum(1), places, right=True), with places = "
        "torch.arange(longest).repeat(batch, 1); then gather by at",
        sources.DURATIONS,
        "*.repeat_interleave torch.repeat_interleave *.expand",
        in_loop=True,
        frames=r"^$|^torch/",
        given=r"repeat_interleave\(|\.expand\((?:max\()?int\(",
        without=r"repeat_interleave\((?:[^,()]*, )?(?:repeats=)?\d",
        where="step evaluation",
    ),
    SlowCall(
        "polynomials-by-recursion",
        "polynomials of each degree are computed from those of the two degrees before",
        "compute all degrees at once: torch.cos(torch.arange(n) * torch.acos(x.clamp(-0.999999, "
        "0.999999))[..., None]) for Chebyshev polynomials",
        sources.CHEBYSHEV,
        "*",
        in_loop=True,
        frames=r"^$|^torch/",
        within=r"\b(\w+)\[((?:(?:\.\.\.|:), )*)(\w+)\] = 2(?:\.0)? \* [\w.]+ \* \1\[\2\3 - 1\]"
        r"(?:\.clone\(\))? - \1\[\2\3 - 2\]|2(?:\.0)? \* [\w.]+ \* (\w+)\[-1\] - \4\[-2\]",
        where="step evaluation",
    ),
    SlowCall(
        "splines-by-recursion",
        "the bases of splines are computed order by order, all of them at each point, though few "
        "are not zero there",
        "on an even grid compute those that are not zero in closed form, as shifted powers "
        "F.relu(x[..., None] - grid) ** k, or use radial functions: torch.exp(-((x[..., None] - "
        "grid) / step) ** 2)",
        sources.SPLINES,
        "*",
        in_loop=True,
        frames=r"^$|^torch/",
        within=r"for (\w+) in range\(1, [^\n]*:\n[\s\S]*\w\[[^\]\n]*:-\(\1 \+ 1\)\][\s\S]*\w\["
        r"[^\]\n]*\b\1 \+ 1:",
        where="step evaluation",
    ),
    SlowCall(
        "displacements-one-by-one",
        "features are multiplied by those of one displacement after another",
        "take all displacements as windows of the padded tensor, which are a view: "
        "torch.einsum('bchw,bchwij->bijhw', a, F.pad(b, (r, r, r, r)).unfold(2, k, 1).unfold(3, "
        "k, 1)), with k = 2 * r + 1",
        sources.CORRELATION,
        "*",
        in_loop=True,
        frames=r"^$|^torch/",
        within=r"for (\w+) in range\([^\n]*:\n\s+for (\w+) in range\([^\n]*:\n(?=[\s\S]* \* )"
        r"(?=[\s\S]*(?:mean|sum)\()[\s\S]*(?:\w\[(?:(?:\.\.\.|:), )+\1:[^\]\n]*, \2:[^\]\n]*\]|"
        r"roll\([^\n]*\(\1, \2\))",
        where="step evaluation",
    ),
    SlowCall(
        "joints-one-by-one-by-parents",
        "the transform of each joint is multiplied by that of its parent, joint by joint",
        "take all joints of one depth of the tree at once, in a loop over the depths: chain[:, "
        "level] = chain[:, parents[level]] @ local[:, level]",
        sources.JOINTS,
        "*",
        in_loop=True,
        frames=r"^$|^torch/",
        within=r"for (\w+) in range\([^\n]*:\n[\s\S]*\w\[(?:(?:\.\.\.|:), )*[\w.]*parent\w*\[\1\]"
        r"(?:\.item\(\))?\]",
        where="step evaluation",
    ),
    SlowCall(
        "adjacency-made-dense",
        "edges are written into a matrix of all pairs of nodes, to multiply by mostly zeros",
        "add up along the edges: torch.zeros_like(h).index_add_(0, dst, h[src]) (times a weight "
        "for each edge), or multiply by a sparse matrix made once, in rows "
        "(.to_sparse_csr())",
        sources.DENSE_GRAPH,
        "torch.mm torch.matmul torch.bmm *.__op__ *.matmul *.mm torch.zeros *.__setitem__",
        frames=_TORCH,
        given=r"@|mm\(|matmul\(|zeros\(|\[[^\]]+, [^\]]+\]$",
        within=r"\b(\w+) = torch\.zeros\([\[(]?([^,\n]+), \2[^\n]*\n(?=[\s\S]*\b\1\[[^\]:]*"
        r"(?:edge|src|dst|row|col|send|recv|source|target)[^:\n]*\] = )[\s\S]*(?:\b\1 @ |"
        r"mm\(\1, |matmul\(\1, )",
        where="step evaluation",
    ),
    SlowCall(
        "weights-modulated-by-sample",
        "a copy of the filters is scaled for each sample, and convolved as one group for each",
        "scale features in place of filters, with one convolution for all samples: "
        "F.conv2d(x * s[:, :, None, None], w) * d[:, :, None, None], with d = (s.square() @ "
        "w.square().sum((2, 3)).t() + eps).rsqrt()",
        sources.MODULATED,
        "torch.nn.functional.conv2d torch.nn.functional.conv_transpose2d *.__op__ torch.rsqrt",
        frames=_TORCH,
        given=r"groups=(?:\w*batch\w*|bs?|B|n|N)\b| \* |rsqrt\(",
        within=r"\bself\.weight\b[^\n]* \* [\s\S]*rsqrt\([\s\S]*conv(?:_transpose)?2d\([^\n]*"
        r"groups=(?:\w*batch\w*|bs?|B|n|N)\b",
        where="step evaluation",
    ),
    SlowCall(
        "few-of-all-vectors",
        "all singular or eigenvectors are computed, of which a few are kept",
        "compute those alone: torch.svd_lowrank(x, q=k + 4), or torch.lobpcg(a, k) of a symmetric "
        "matrix",
        sources.TRUNCATED,
        "torch.svd torch.linalg.svd torch.linalg.eigh",
        frames=_TORCH,
        within=r"\b(\w+), \w+, \w+ = torch\.(?:linalg\.)?svd\([^\n]*\n[\s\S]*\b\1\[(?:(?:\.\.\.|"
        r":), )+:[\w.]+\]|\b\w+, (\w+) = torch\.linalg\.eigh\([^\n]*\n[\s\S]*\b\2\[(?:(?:\.\.\.|"
        r":), )+-[\w.]+:\]",
        where="step evaluation",
    ),
    SlowCall(
        "sampled-by-corners",
        "an image is sampled between its pixels by four gathers, and products of each with its "
        "weight",
        "use F.grid_sample(image, grid, align_corners=True), which is one operator, with places "
        "from -1 to 1: grid = torch.stack([2 * x / (width - 1) - 1, 2 * y / (height - 1) - 1], -1)",
        sources.SAMPLED_BY_HAND,
        "*.__getitem__ torch.gather *.gather *.clamp torch.clamp torch.floor *.floor *.__op__ "
        "*.long torch.index_select *.index_select",
        frames=_TORCH,
        within=r"\A(?=[\s\S]*floor\()(?=[\s\S]*(?:clamp|clip)\()[\s\S]*\S+ \* \S+ \+ \S+ \* \S+ \+ "
        r"\S+ \* \S+ \+ \S+ \* \S+",
        where="step evaluation",
    ),
    SlowCall(
        "crops-one-by-one",
        "a part of the features is cut out and resized for one box after another",
        "take all boxes of the batch in one call: torchvision.ops.roi_align(features, boxes, (7, "
        "7), spatial_scale=scale, sampling_ratio=2, aligned=True)",
        sources.ROI_ALIGN,
        "*",
        in_loop=True,
        frames=r"^$|^torch/",
        within=r"(?i)for (?=[^\n]*(?:box|roi|rect|prop))[^\n]* in [^\n]*:\n(?=[\s\S]*"
        r"(?:adaptive_(?:avg|max)_pool2d|interpolate)\()[\s\S]*\w\[(?:[^\]\n]*, )?\w+:\w+, "
        r"\w+:\w+\]",
        where="step evaluation",
    ),
    SlowCall(
        "integrated-in-small-steps",
        "a network is called for one small step of time after another, and backward goes through "
        "all of them",
        "take fewer and longer steps of a higher order (Heun or RK4 with a quarter of the steps, "
        "or torchdiffeq's dopri5 with rtol=1e-3), and torch.compile one step",
        sources.FIXED_STEPS,
        "*",
        in_loop=True,
        frames=r"^torch/nn/modules/module\.py",
        within=r"for \w+ in [^\n]*:\n[\s\S]*\b(\w+) (?:= \1 \+|\+=) (?:\(?(?:self\.)?(?:dt|h|"
        r"step_size|delta_t|dt_\w+|\w+_dt)\b[^\n]*\* [\w.]+\((?:\w+, )?\1\b|[\w.]+\((?:\w+, )?\1\b"
        r"[^\n]*\) \* (?:self\.)?(?:dt|h|step_size|delta_t|\w+_dt)\b)",
        where="step",
    ),
    SlowCall(
        "pieces-reduced-one-by-one",
        "a tensor is split into pieces of different lengths, and each is reduced by itself",
        "reduce all by the number of the piece of each row: i = "
        "torch.repeat_interleave(torch.arange(n), sizes); torch.zeros(n, d).index_add_(0, i, x) / "
        "sizes[:, None] for means, scatter_reduce_ with 'amax' for the largest",
        sources.POOLED_BY_SCATTER,
        "*.mean *.sum *.max *.amax torch.stack *.split torch.split torch.mean torch.sum torch.max",
        frames=_TORCH,
        within=r"(?:\b(\w+)\.(?:mean|sum|a?max)\([^()]*\)|torch\.(?:mean|sum|a?max)\((\w+)\b[^()]*"
        r"\))(?:\[0\]|\.values)? for (?:\1|\2) in (?:torch\.split\((?!\w+, \d)|[\w.]+\.split\("
        r"(?!\d))|for (\w+) in (?:torch\.split\((?!\w+, \d)|[\w.]+\.split\((?!\d))[^\n]*:\n"
        r"[\s\S]*\b\3\.(?:mean|sum|a?max)\(",
        where="step evaluation",
    ),
    SlowCall(
        "attention-masked-by-adjacency",
        "attention is computed between all pairs of nodes, and a mask keeps that along edges",
        "compute it for the edges alone: e = F.leaky_relu(source[i] + target[j]); a = "
        "torch_geometric.utils.softmax(e, j); out.index_add_(0, j, a[:, None] * h[i]), with i, j = "
        "adj.nonzero().t() made once",
        sources.DENSE_GRAPH,
        "*",
        frames=r"^$|^torch/",
        within=r"(?i)torch\.where\((\w*(?:adj|graph|edge|neigh|conn)\w*)(?: > 0| != 0| == 1)?, "
        r"\w+, [\s\S]*softmax\([\s\S]*(?:matmul\(|mm\(| @ )|masked_fill_?\(~?\(?\w*(?:adj|graph|"
        r"edge|neigh|conn)\w*(?:\.unsqueeze\(\d\))?(?: == 0)?\)?, [\s\S]*softmax\([\s\S]*(?:matmul"
        r"\(|mm\(| @ )",
        where="step evaluation",
    ),
)
