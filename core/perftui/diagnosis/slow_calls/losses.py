"""Losses and what is computed for them the long way, or one by one."""

from __future__ import annotations

from perftui.diagnosis.slow_calls import sources
from perftui.diagnosis.slow_calls.models import SLOW
from perftui.diagnosis.slow_calls.row import SlowCall

_TORCH = r"^$|^torch/"
"""The line itself, or a function of torch that it calls."""

ROWS = (
    SlowCall(
        "log-of-softmax",
        "the logarithm of a softmax is taken, which goes through all of it twice more, forward "
        "and backward",
        "use F.log_softmax, and its exp() where the probabilities are needed too; for the loss "
        "of classes F.cross_entropy of the logits",
        sources.FUNCTIONS,
        "torch.log *.log torch.softmax torch.nn.functional.softmax *.softmax",
        frames=_TORCH,
        without=r"^self\.log\(",
        within=r"\blog\([^\n]*(?<!log_)softmax\(|(?<!log_)softmax\([^\n]*\)\.log\(|\b(\w+) = [^"
        r"\n]*(?<!log_)softmax\([^\n]*\n[\s\S]*(torch\.log\(\1\b|\b\1\.log\()",
        where="step evaluation",
    ),
    SlowCall(
        "loss-of-sigmoid",
        "the sigmoid of the logits is taken first, and a logarithm of it then",
        "give the logits to F.binary_cross_entropy_with_logits, which takes a quarter of the "
        "time and does not overflow",
        sources.WITH_LOGITS,
        "*",
        frames=r"functional\.py\S* binary_cross_entropy$|loss\.py\S* BCELoss",
        within=r"(?i)(bce\w*|binary_cross_entropy|criterion\w*|\bloss\w*)\([^\n()]*sigmoid\(|\b("
        r"\w+) = [^\n]*sigmoid\([^\n]*\n[\s\S]*(bce\w*|binary_cross_entropy|criterion\w*|\bloss"
        r"\w*)\(\2(\.\w+\([^()]*\))*, ",
        where="step evaluation",
    ),
    SlowCall(
        "binary-loss-by-hand",
        "both logarithms of a binary cross entropy are computed at each element, by operators "
        "of their own",
        "call F.binary_cross_entropy_with_logits(logits, target) on what the sigmoid is taken "
        "of (weight= and pos_weight= weigh it)",
        sources.WITH_LOGITS,
        "torch.log *.log *.__op__",
        frames=_TORCH,
        within=r"\b(\w+) \* (torch\.)?log\([^\n]*\(1(\.0)? - \1\) \* (torch\.)?log\(1(\.0)? - ",
        where="step evaluation",
    ),
    SlowCall(
        "gelu-by-hand",
        "GELU is computed by operators of its own, each of which goes through all of the tensor "
        "and keeps it",
        "use F.gelu(x), or F.gelu(x, approximate='tanh') for the one with tanh: one operator",
        sources.FUNCTIONS,
        "torch.tanh *.tanh torch.erf *.erf torch.pow *.pow *.__op__",
        frames=_TORCH,
        within=r"0\.044715|\* \(1(\.0)? \+ torch\.erf\(\w+ / (math\.sqrt\(2|1\.41)",
        where="step evaluation",
    ),
    SlowCall(
        "swish-by-hand",
        "the activation is made of two operators, which go through memory twice, and keep two "
        "tensors for backward",
        "use F.silu(x) for x * sigmoid(x), and F.mish(x) for x * tanh(softplus(x)): one operator",
        sources.FUNCTIONS,
        "*.__op__ torch.sigmoid *.sigmoid torch.mul *.mul torch.tanh *.tanh "
        "torch.nn.functional.softplus",
        frames=_TORCH,
        within=r"(?<![\w.])(\w+) \* (torch\.sigmoid\(\1\)|\1\.sigmoid\(\)|F\.sigmoid\(\1\)|torch"
        r"\.tanh\(F\.softplus\(\1\)\))|\b(\w+)\.mul\(\3\.sigmoid|torch\.mul\((\w+), torch\.sigmo"
        r"id\(\4\)",
        where="step evaluation",
    ),
    SlowCall(
        "layer-norm-by-hand",
        "the mean and the deviation of the last dimension are computed by operators of their "
        "own, forward and backward",
        "use F.layer_norm(x, x.shape[-1:], weight, bias, eps), which takes a seventh of the "
        "time; it divides by the root of the variance plus eps, without correction",
        sources.FUNCTIONS,
        "*.mean *.std *.var torch.mean torch.std torch.var torch.var_mean torch.std_mean *.__op__",
        frames=_TORCH,
        within=r"\b(\w+) = (\w+)\.mean\((dim=)?\(?-1,?\)?, keepdim=True\)\n[\s\S]*(\b\2\.(var|st"
        r"d)\((dim=)?\(?-1,?\)?, |\(\2 - \1\)(\.pow\(2\)| \*\* 2)\)?\.mean\((dim=)?-1)[\s\S]*\("
        r"\2 - \1\)",
        where="step evaluation",
    ),
    SlowCall(
        "instance-norm-by-hand",
        "mean and deviation of each image's channels are computed by operators of their own, "
        "forward and backward",
        "use F.instance_norm(x), and scale and shift what it gives: F.instance_norm(content) * "
        "style_std + style_mean",
        sources.FUNCTIONS,
        "*.mean *.std *.var torch.mean torch.std torch.var *.__op__",
        frames=_TORCH,
        within=r"\b(\w+) = (\w+)\.mean\((dim=)?[\[(]\(?(2, 3|-2, -1|-1, -2)[\])][^\n]*\n[\s\S]*"
        r"\b\2\.(var|std)\((dim=)?[\[(](2, 3|-2, -1|-1, -2)[\s\S]*\(\2 - \1\)",
        where="step evaluation",
    ),
    SlowCall(
        "squared-error-by-hand",
        "difference, square and mean each go through the whole tensor, forward and backward",
        "use F.mse_loss(input, target), which takes a third of the time",
        sources.FUNCTIONS,
        "*.mean torch.mean",
        frames=_TORCH,
        given=r"^(torch\.mean\(\([\w.]+ - [\w.]+\) \*\* 2\)|\(\([\w.]+ - [\w.]+\) \*\* 2\)\.mean"
        r"\(\)|\([\w.]+ - [\w.]+\)\.(pow\(2\)|square\(\))\.mean\(\)|torch\.mean\(torch\.(square|"
        r"pow)\([\w.]+ - [\w.]+(, 2)?\)\))$",
        where="step evaluation",
    ),
    SlowCall(
        "huber-by-hand",
        "both branches of the loss are computed at each element by operators of their own, and "
        "one of them is thrown away",
        "use F.smooth_l1_loss(input, target, beta=...), or F.huber_loss(input, target, "
        "delta=...): one operator",
        sources.FUNCTIONS,
        "torch.where *.where",
        frames=_TORCH,
        given=r"<=? [\w.]+, 0\.5 \* \(?[\w.]+( \*\* 2|\.pow\(2\)|\.square\(\))|torch\.(pow|squar"
        r"e)\(\w+(, 2)?\) \* 0\.5",
        where="step evaluation",
    ),
    SlowCall(
        "targets-smoothed-by-hand",
        "smoothed targets are made as a dense matrix of samples x classes, and multiplied with "
        "all logarithms",
        "use F.cross_entropy(logits, target, label_smoothing=eps, ignore_index=pad), which "
        "makes none (eps is shared by all n classes: for n - 1 of them pass eps * n / (n - 1))",
        sources.SMOOTHING,
        "*.scatter_ *.fill_ *.masked_fill_ torch.full_like torch.zeros_like "
        "torch.nn.functional.kl_div *.sum torch.sum *.clone *.__op__ *.__call__",
        frames=_TORCH,
        within=r"(?i)(smooth|confidence)[\s\S]*\.scatter_\((dim=)?(1|-1), |\.scatter_\((dim=)?(1"
        r"|-1), [^\n]*(confidence|smooth|1(\.0)? - eps)",
        where="step evaluation",
    ),
    SlowCall(
        "targets-made-dense",
        "targets are made one-hot, and multiplied with the logarithms of all classes to keep "
        "one of them",
        "take the one: F.cross_entropy(logits, target, reduction='none'), or "
        "log_probs.gather(1, target[:, None])",
        sources.FUNCTIONS,
        "*.sum torch.sum *.__op__ *.scatter_",
        frames=_TORCH,
        within=r"\A(?![\s\S]*(smooth|lam\b|mixup))[\s\S]*\b(\w+) = [^\n]*(one_hot\(|\.scatter_\("
        r"(dim=)?1, )[\s\S]*(\b\2\b \* (F\.log_softmax|\w*log(?!it)\w*)|log(?!it)\w*(\([^()]*\))"
        r"? \* \2\b)",
        where="step evaluation",
    ),
    SlowCall(
        "diagonal-dropped-by-mask",
        "the diagonal is taken out by a boolean index, which gathers all other numbers one by "
        "one, and scatters their gradients",
        "keep the square: {it}.masked_fill(eye, float('-inf')), whose exp is 0, and "
        "F.cross_entropy with the place of each partner as target",
        sources.CONTRASTIVE,
        "*.__getitem__ torch.masked_select *.masked_select",
        frames=_TORCH,
        given=r"\[~?\w*(mask|eye)\w*(\.bool\(\))?\]|masked_select\(",
        within=r"eye\([\s\S]*(\]|\))\.(view|reshape)\(",
        where="step evaluation",
    ),
    SlowCall(
        "margin-of-all-classes",
        "the margin is computed for the logit of every class, though a one-hot mask keeps that "
        "of each sample's own",
        "take the own logits first: t = cosine.gather(1, label[:, None]), compute the margin on "
        "these alone, and put them back: cosine.scatter(1, label[:, None], margin)",
        sources.MARGIN,
        "*.__op__ torch.where torch.sqrt *.sqrt torch.pow *.pow *.scatter_ torch.acos torch.cos",
        frames=_TORCH,
        within=r"(?i)(cos_m|margin|\bphi\b|self\.m\b)[\s\S]*(scatter_\(|one_hot\()[\s\S]*\b(\w+)"
        r" \* \(?\w+\)? \+ \(1(\.0)? - \3\) \* ",
        where="step evaluation",
    ),
    SlowCall(
        "centre-of-every-class",
        "the distance of each sample to the centre of every class is computed, though a mask "
        "keeps that to its own",
        "take the own centres: (x - centers[labels]).pow(2).sum(1), or F.embedding(labels, "
        "centers) for them",
        sources.GATHER,
        "*.addmm_ torch.addmm *.expand *.__op__ *.eq *.sum torch.pow *.pow",
        frames=_TORCH,
        within=r"(\w+) = \w+\.eq\(\w*class\w*\.expand\([\s\S]*\w+ \* \1\.float\(\)",
        where="step evaluation",
    ),
    SlowCall(
        "hardest-one-by-one",
        "the hardest partners are looked for row by row, with an index by a mask in each",
        "look in all rows at once: dist.masked_fill(~same, float('-inf')).max(1).values, and "
        "dist.masked_fill(same, float('inf')).min(1).values",
        sources.TRIPLETS,
        "*",
        in_loop=True,
        frames=r"^$|^torch/",
        within=r"\w+\[(\w+)\]\[\w+\[\1\]( == 1)?\]\.(max|min)\(\)[\s\S]*\w+\[\1\]\[(\w+\[\1\] =="
        r" 0|~\w+\[\1\])\]\.(max|min)\(\)",
        where="step evaluation",
    ),
    SlowCall(
        "ranked-by-two-sorts",
        "losses are sorted twice, to find the rank of each",
        "find the limit of each row instead: limit = loss.topk(int(number.max()), "
        "1).values.gather(1, number - 1), and loss >= limit are the hardest",
        sources.TOPK,
        "*.sort torch.sort *.argsort torch.argsort",
        frames=_TORCH,
        within=r"(\w+) = [^\n]*sort\([^\n]*\n[^\n]*(torch\.(arg)?sort\(\1\b|\b\1\.(arg)?sort\()["
        r"\s\S]* < ",
        where="step evaluation",
    ),
    SlowCall(
        "sorted-then-cut",
        "all values are sorted, and a part of them from one end on is read",
        "torch.topk(x, k) for a small part, which sorts k of them; to tell the k largest from "
        "the others only, x.kthvalue or topk gives the limit, and a comparison with it the mask",
        sources.TOPK,
        "*.sort torch.sort",
        frames=_TORCH,
        within=r"\b(\w+)(, _)? = [^\n]*\bsort\([^\n]*\)(\[0\]|\.values)?\n(?=[\s\S]*\b\1\[:)(?!["
        r"\s\S]*\b\1\b(?!\[:))|_, (\w+) = [^\n]*\bsort\([^\n]*\n(?=[\s\S]*\b\4\[:)(?![\s\S]*\b\4"
        r"\b(?!\[:))",
        where="step evaluation",
    ),
    SlowCall(
        "sorted-by-class",
        "errors are sorted once for each class, in a loop over the classes",
        "sort the columns of all classes in one call: errors, order = torch.sort(errors, 0, "
        "descending=True), cumsum(0) of the targets gathered by order, and skip absent classes "
        "by a mask",
        sources.LOVASZ,
        "*",
        loop=r"^(classes|columns|items) free|^ free",
        within=r"for \(?\w*,? ?(c|cls|class\w*|label\w*)\)? in [\s\S]*(torch\.sort\(|\.sort\(0)",
        rules=SLOW,
    ),
    SlowCall(
        "window-for-each-moment",
        "five images are filtered with the same two-dimensional window, each by a call of its own",
        "join them (torch.cat((x, y, x * x, y * y, x * y), 1), groups for all channels), and "
        "filter with the window's column and then its row, k + k numbers in place of k * k",
        sources.SSIM,
        "torch.nn.functional.conv2d torch.conv2d torch.nn.functional.avg_pool2d",
        frames=_TORCH,
        given=r"conv2d\(",
        within=r"conv2d\((\w+)( \* \1|\.pow\(2\)| \*\* 2), ([\w.]+)[\s\S]*conv2d\(\1 \* (?!\1\b)"
        r"\w+, \3",
        where="step evaluation",
    ),
    SlowCall(
        "differences-expanded",
        "all pairs of vectors are laid out, a vector for each pair, and their differences go "
        "through memory several times, forward and backward",
        "use torch.cdist(a, b), or a @ b.T and the squares of both, which only make one number "
        "for each pair",
        sources.CDIST,
        "*.expand *.repeat torch.pow *.pow *.sum torch.sum *.__op__ *.norm torch.norm",
        frames=_TORCH,
        within=r"(\w+) = \w+\.unsqueeze\((0|1)\)\.(expand|repeat)\([^\n]*\n[^\n]*\b(?!\1)(\w+) ="
        r" \w+\.unsqueeze\((?!\2)[01]\)\.(expand|repeat)\([\s\S]*(\1 - \4|\4 - \1)\)?( \*\* 2|, "
        r"2|\.pow\(2|\.norm\()[\s\S]{0,12}(sum|norm|mean|2)\b",
        where="step evaluation",
    ),
    SlowCall(
        "cosine-of-all-pairs",
        "the cosines of all pairs are computed from products that are laid out vector by vector",
        "normalise the vectors once, and multiply: F.normalize(a, dim=-1) @ F.normalize(b, "
        "dim=-1).mT",
        sources.CDIST,
        "*",
        frames=_TORCH,
        given=r"(?i)(cos\w*|sim\w*|criterion)\(\w+(\.unsqueeze\((\d|-\d)\)|\[[^\]]*None[^\]]*\])"
        r", \w+(\.unsqueeze\((\d|-\d)\)|\[[^\]]*None[^\]]*\])",
        where="step evaluation",
    ),
    SlowCall(
        "product-then-sum",
        "a product is broadcast to its full size, kept for backward, and then summed along one "
        "dimension",
        "that is a matrix product, which makes none of it: torch.einsum, or torch.bmm (of "
        "weights: torch.bmm(weights.unsqueeze(1), values).squeeze(1))",
        sources.EINSUM_DOCS,
        "*.sum torch.sum",
        frames=_TORCH,
        given=r"^(torch\.sum\(|\()(\w+(\.unsqueeze\(-?\d\)|\[[^\]\n]*None[^\]\n]*\]) \* \w+(\.un"
        r"squeeze\(-?\d\)|\[[^\]\n]*None[^\]\n]*\])?|\w+ \* \w+(\.unsqueeze\(-?\d\)|\[[^\]\n]*No"
        r"ne[^\]\n]*\]))(\)\.sum\(|, )(dim=|axis=)?-?\d\)$",
        where="step evaluation",
        rules=r"memory-bound-elementwise page-faults compute-bound slow-operator largest-part",
    ),
    SlowCall(
        "centred-by-matrix",
        "a matrix is centred by products with another matrix as large",
        "subtract its means: k - k.mean(0) - k.mean(1, keepdim=True) + k.mean(), and for the "
        "trace of a product (a * b).sum()",
        sources.CENTRED,
        "torch.mm torch.matmul *.mm *.matmul *.__op__ torch.trace torch.linalg.multi_dot",
        frames=_TORCH,
        within=r"\b(\w+) = torch\.eye\([^\n]*\) - (1(\.0)? / |torch\.(ones|full)\([^\n]* / )[\s"
        r"\S]*(@ \1\b|\b\1 @|mm\(\1\b|matmul\(\1\b|, \1\))",
        where="step evaluation",
    ),
    SlowCall(
        "diagonal-of-product",
        "a product of all rows with all columns is computed, of which only the diagonal is kept",
        "compute that alone: (a * b).sum(-1) for the diagonal of a @ b.T, and (a * b.T).sum() "
        "for the trace of a @ b",
        sources.EINSUM_DOCS,
        "torch.diag torch.diagonal torch.trace *.diag *.diagonal *.trace torch.matmul torch.mm "
        "*.mm *.matmul *.__op__",
        frames=_TORCH,
        given=r"(diag|diagonal|trace)\((torch\.(mm|matmul)\(|[^()]* @ )|(\([^()]* @ [^()]*\)|tor"
        r"ch\.(mm|matmul)\([^()]*\)|\.(mm|matmul)\([^()]*\))\.(diag|diagonal|trace)\(",
        where="step evaluation",
    ),
    SlowCall(
        "risk-sets-by-pairs",
        "the set of those still at risk is made as a mask of all pairs of samples, or anew for "
        "each of them",
        "sort by time once, and sum up: order = time.argsort(descending=True); risk = "
        "torch.logcumsumexp(score[order], 0); loss = -((score[order] - risk) * "
        "event[order]).sum() / event.sum()",
        sources.COX,
        "*",
        frames=r"^$|^torch/|^numpy/",
        within=r"(?i)\A(?![\s\S]*argsort)(?=[\s\S]*(event|censor|surviv|hazard))(?=[\s\S]*exp\()"
        r"(?=[\s\S]*log\()[\s\S]*(time\w*|\bt|durations?|\by)(\[[^\]]*\]|\.unsqueeze\(\d\)|\.vie"
        r"w\([^)]*\)|\.T)? (>=|<=) (\w*time\w*|t|durations?|y)(\[|\.unsqueeze|\.view|\.T)",
        where="step evaluation",
    ),
    SlowCall(
        "quantiles-one-by-one",
        "the loss of each quantile is computed by operators of its own",
        "compute all at once, with q as a tensor: e = target[..., None] - pred; "
        "torch.maximum((q - 1) * e, q * e).mean()",
        sources.VECTORIZE,
        "*",
        in_loop=True,
        frames=r"^$|^torch/",
        within=r"(?i)for [^\n]*(quantile|tau|percentile)[\s\S]*(max(imum)?\(\(?\w+ - 1\)? \* |wh"
        r"ere\()",
        rules=SLOW,
        where="step evaluation",
    ),
    SlowCall(
        "lags-one-by-one",
        "products of a signal with itself are summed lag by lag",
        "compute all lags by a Fourier transform: torch.fft.irfft(torch.fft.rfft(x, n=2 * "
        "t).abs().square(), n=2 * t)[..., :lags]",
        sources.AUTOCORRELATION,
        "*",
        in_loop=True,
        frames=r"^$|^torch/",
        within=r"for (\w+) in [\s\S]*\b(\w+)\[((?:\.\.\., |:, )*)\1:\] \* \2\[((?:\.\.\., |:, )*"
        r"):(-\1|\w+ - \1|\2\.[^\]]* - \1)\]",
        rules=SLOW,
        where="step evaluation",
    ),
    SlowCall(
        "members-by-pairs",
        "the differences of all pairs of an ensemble's members are made, to take their mean",
        "sort the members (m of them along dim 0) and weigh them: x = x.sort(0).values; w = 2 * "
        "torch.arange(1, m + 1) - m - 1; the mean of all pairs is 2 * torch.tensordot(w.to(x), "
        "x, 1) / m ** 2",
        sources.CRPS,
        "*.abs torch.abs *.mean torch.mean *.__op__ *.sum torch.sum",
        frames=_TORCH,
        within=r"(?i)crps|gini",
        given=r"(\w+)(\.unsqueeze\(-?\d\)|\[[^\]]*None[^\]]*\]) - \1(\.unsqueeze\(|\[)",
        where="step evaluation",
    ),
    SlowCall(
        "scalings-recorded",
        "backward goes through every iteration of the scaling, though the gradient of the "
        "optimum needs none of them",
        "run the iterations under torch.no_grad(), and use the plan that they give as a "
        "constant: (plan * cost).sum()",
        sources.ENVELOPE,
        "torch.matmul torch.mv torch.mm *.matmul *.mv *.sum torch.sum *.__op__",
        frames=_TORCH,
        within=r"(?i)\A(?![\s\S]*(no_grad|inference_mode))[\s\S]*sinkhorn",
        in_loop=True,
        where="step",
        least=0.2,
    ),
    SlowCall(
        "tags-one-by-one",
        "the forward sums of a CRF are computed for one tag after another, at each word",
        "take all tags, and all sentences of the batch, at once: alpha = "
        "torch.logsumexp(alpha[:, None] + transitions, 2) + feats[:, t], with transitions[to, "
        "of] (of the best path the maximum over dim 2)",
        sources.CRF,
        "*",
        in_loop=True,
        frames=r"^",
        within=r"for \w+ in range\([^\n]*(tag|label|state)\w*\):\n[\s\S]*transition",
        where="step evaluation",
    ),
    SlowCall(
        "ctc-by-hand",
        "the sums of a CTC loss are computed step by step in Python",
        "use F.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=...), with "
        "log_probs as steps x samples x classes",
        sources.CTC,
        "*",
        in_loop=True,
        frames=r"^",
        within=r"(?i)\A(@.*\n)*def \w*ctc(?!\w*(decode|greedy|align|collapse))\w*\([\s\S]*(logad"
        r"dexp|logsumexp|log_?sum_?exp|alpha)",
        rules=SLOW,
        where="step evaluation",
    ),
    SlowCall(
        "projected-by-atoms",
        "the distribution of returns is projected atom by atom, or sample by sample, in Python",
        "add all at once: m.view(-1).index_add_(0, (lower + offset).view(-1), (p * (upper - "
        "b)).view(-1)), and alike for upper, with offset = torch.arange(batch)[:, None] * atoms",
        sources.INDEX_ADD,
        "*",
        in_loop=True,
        frames=r"^",
        within=r"(?i)for \w+ in range\([^\n]*atom\w*\):[\s\S]* \+= ",
        where="step evaluation",
    ),
    SlowCall(
        "gradients-by-sample",
        "backward runs once for each sample, to have the gradients of each by itself",
        "compute those of all samples in one pass: "
        "torch.func.vmap(torch.func.grad(loss_of_one), in_dims=(None, 0, 0)), with "
        "torch.func.functional_call for the model",
        sources.PER_SAMPLE,
        "torch.autograd.grad *.backward torch.Tensor.backward",
        frames=r"^$|^torch/",
        in_loop=True,
        within=r"for (\w+)\b[^\n]* in [^\n]*:\n(?=[\s\S]*\w\[\1(:\1 \+ 1|\]\.unsqueeze\(0\)|\]\["
        r"None|, None))[\s\S]*(autograd\.grad\(|\.backward\()",
    ),
    SlowCall(
        "trace-by-columns",
        "backward runs once for each column of the output, and one derivative of each is kept",
        "a vector product estimates their sum without bias: v = torch.randn_like(x); g = "
        "torch.autograd.grad(y, x, v, create_graph=True)[0]; (g * v).sum(-1); for the exact "
        "sum, one call with is_grads_batched=True and the unit vectors",
        sources.TRACE,
        "torch.autograd.grad",
        frames=r"^$|^torch/",
        in_loop=True,
        within=r"for (\w+) in [^\n]*:\n[\s\S]*grad\([^\n]*\[[^\]\n]*\b\1\b[^\n]*\)\[0\]\[[^\]\n]"
        r"*\b\1\b",
    ),
    SlowCall(
        "weights-in-attack",
        "backward computes the gradients of all weights too, though only that of the input is read",
        "ask for that one: grad = torch.autograd.grad(loss, x)[0], with x as what requires_grad "
        "was set for",
        sources.ATTACK,
        "*.backward torch.Tensor.backward",
        frames=r"^$|^torch/",
        within=r"\A(?!class)(?=[\s\S]*\b(x|x_\w+|inputs?\w*|images?\w*|imgs?\w*|data\w*|delta\w*"
        r"|adv\w*|\w+_adv|pert\w*|noise\w*|eta)\.requires_grad(_\(| = True)[\s\S]*\.backward\(["
        r"\s\S]{0,300}\b\1\.grad\b)(?![\s\S]*\.backward\([\s\S]{0,200}opt\w*\.step\()",
        where="step",
    ),
    SlowCall(
        "chain-of-gradients",
        "samples are drawn by a chain of gradient steps from noise, each through the whole network",
        "keep earlier samples in a buffer and start most chains from these, so that few steps do",
        sources.CHAINS,
        "torch.autograd.grad *.backward *.__call__",
        frames=r"^torch/",
        in_loop=True,
        within=r"for \w+ in [^\n]*:\n[\s\S]*(autograd\.grad\(|\.backward\(\))[\s\S]*(?:\+|add_\("
        r"|normal_\()[^\n]*(randn|noise|normal_)",
        where="step evaluation",
    ),
    SlowCall(
        "tasks-one-by-one",
        "each task adapts the weights by itself, with small operators for each",
        "adapt all tasks in one pass: torch.func.vmap of a function of one task's samples, with "
        "torch.func.grad and functional_call inside; without second derivatives "
        "(create_graph=False) a step costs a third",
        sources.PER_SAMPLE,
        "*",
        in_loop=True,
        frames=r"^$|^torch/",
        within=r"for [^\n]*\b\w*tasks?\w*\b[^\n]*:\n[\s\S]*(autograd\.grad\(|fast_weights|functi"
        r"onal_call)",
        where="step",
    ),
    SlowCall(
        "distributions-in-loop",
        "a distribution object is made in each turn, with checks of its own",
        "make one with the parameters of all turns as a batch, and call it once; mixtures by "
        "torch.distributions.MixtureSameFamily",
        sources.VALIDATION,
        "torch.distributions.*",
        loop=r"free",
        given=r"\[",
    ),
    SlowCall(
        "weights-expanded-to-draw",
        "the same weights are repeated for each row, and summed up anew in each",
        "draw for all rows at once from one: torch.multinomial(weights, rows * k, "
        "replacement=True).view(rows, k)",
        sources.MULTINOMIAL,
        "torch.multinomial *.multinomial",
        frames=_TORCH,
        given=r"\.(expand|repeat)\((?=.*(replacement=True|, True\)))",
        where="step item",
    ),
    SlowCall(
        "real-signal-as-complex",
        "a signal of real numbers is transformed as one of complex numbers, whose half is the "
        "same again",
        "use torch.fft.rfft and torch.fft.irfft(..., n=length) (rfft2 and irfft2): half of the "
        "work and memory",
        sources.RFFT,
        "torch.fft.fft torch.fft.ifft torch.fft.fft2 torch.fft.ifft2 torch.fft.fftn "
        "torch.fft.ifftn *.__op__",
        frames=_TORCH,
        given=r"fft\.",
        within=r"\A(?![\s\S]*(complex\(|1j|polar\())(?=[\s\S]*fft\.fft(2|n)?\()[\s\S]*fft\.ifft("
        r"2|n)?\(.*\)\.real\b|fft\.fft\([^\n]*\[[^\]\n]*:[^\]\n]* // 2",
        without=r"complex|1j",
        where="step evaluation item",
    ),
    SlowCall(
        "branches-by-mask",
        "both branches are computed by boolean indices, which gather and scatter numbers one by "
        "one, also in backward",
        "compute both on all of it, and choose: torch.where(mask, a, b)",
        sources.WHERE,
        "*.__setitem__ *.__getitem__ *.__op__ torch.exp torch.log torch.sqrt",
        frames=_TORCH,
        given=r"\[~?\w+( (>|<|>=|<=) [^\]]*)?\]|^torch",
        within=r"\b(\w+)\[(\w+)\] = [^\n]*\w\[\2\][^\n]*\n[\s\S]{0,200}\b\1\[~\2\] = [^\n]*\w\[~"
        r"\2\]|\b(\w+)\[(\w+) > ([\w.]+)\] = [^\n]*\[\4 > \5\][^\n]*\n[\s\S]{0,200}\b\3\[\4 <= "
        r"\5\] = [^\n]*\[\4 <= \5\]",
        where="step evaluation",
    ),
    SlowCall(
        "power-by-function",
        "{call} is computed by a general power function, number by number",
        "write it with products and roots: x.square().square() for 4, x * x.sqrt() for 1.5, "
        "x.sqrt().sqrt() for 0.25",
        sources.POWERS,
        "torch.Tensor.__op__ torch.Tensor.pow torch.pow",
        frames=_TORCH,
        given=r"(\*\* |pow\(|pow\([^(),]*, )(4(\.0)?|6(\.0)?|8(\.0)?|1\.5|2\.5|0\.25|0\.75)\)?$",
        least=0.5,
        where="step evaluation",
    ),
    SlowCall(
        "triplets-listed",
        "indices of all triplets of the batch are listed, of which there are about the cube of "
        "its size",
        "give the loss those of a miner (TripletMarginMiner with type_of_triplets='semihard', "
        "BatchHardMiner), or use one that takes pairs",
        sources.MINERS,
        frames=r"pytorch_metric_learning/utils/loss_and_miner_utils\.py\S* \S*(get_all_triplets|"
        r"get_random_triplet)",
        where="step evaluation",
    ),
    SlowCall(
        "sparsemax-of-all",
        "all scores are sorted for a sparse softmax of which few are not zero",
        "pass k= (as 100): only the largest are then sorted, with the same result if no more "
        "than k are not zero; or entmax_bisect",
        sources.ENTMAX,
        frames=r"entmax/activations\.py",
        where="step evaluation",
    ),
    SlowCall(
        "crf-of-library",
        "the CRF goes through the words one by one, with small operators for all tags at each",
        "cut the batch at its longest sentence, sort sentences of like lengths into batches "
        "(its time goes by the longest), and compute the marginals of words only where they are "
        "needed",
        sources.CRF_SLOW,
        frames=r"\b(torchcrf|TorchCRF)/\S+ \S*(CRF|normalizer|score|viterbi)",
        where="step evaluation",
    ),
    SlowCall(
        "transport-on-cpu",
        "{call} solves for the exact transport on the CPU, in one thread, and copies the costs "
        "to it",
        "use an entropic solver on tensors (ot.sinkhorn with a larger reg and fewer numItermax, "
        "or geomloss.SamplesLoss), or smaller batches: exact solvers take the cube of their size",
        sources.POT,
        "ot.emd ot.emd2 ot.lp.emd ot.lp.emd2 ot.emd2_1d",
        frames=r"^ot/|^$",
        where="step evaluation",
    ),
    SlowCall(
        "box-sums-by-convolution",
        "sums over windows are computed by convolution with ones, which adds up each window anew",
        "go along one axis after the other: F.avg_pool3d(x, (k, 1, 1), 1), then (1, k, 1) and "
        "(1, 1, k), each with the padding of its axis (avg_pool2d for images); times the number "
        "of the window's elements for sums",
        sources.POOLING,
        "*",
        frames=_TORCH,
        given=r"conv",
        within=r"\b(\w+) = torch\.ones\([\[(]?\[?1, 1[^\n]*\n[\s\S]*conv\w*\([^\n]+, (weight=)?"
        r"\1\b|conv[23]d\([^\n]+, torch\.ones\(",
        where="step evaluation",
    ),
    SlowCall(
        "orthogonalised-by-loops",
        "vectors are made orthogonal one by one, each against all before it",
        "take q of torch.linalg.qr(vectors.mT), whose columns span the same, for all samples as "
        "one batch",
        sources.QR,
        "*",
        frames=r"^",
        in_loop=True,
        within=r"(?i)\A(@.*\n)*def \w*(gram_?schmidt|orthogonali[sz]e|orthonormali[sz]e)\w*\(",
        rules=SLOW,
        where="step evaluation",
    ),
    SlowCall(
        "moving-mean-by-slices",
        "the mean of a window is computed at one position after another",
        "compute all of them: F.avg_pool1d(x, size, stride=1), or x.unfold(1, size, 1) and a "
        "reduction of its last dimension",
        sources.UNFOLD,
        "*",
        frames=_TORCH,
        in_loop=True,
        within=r"for (\w+) in (?:range|\w+)\(?[\s\S]*\w\[[^\]\n]*(?:\b\1 - [\w.]+:\1\b|\b\1:\1 "
        r"\+ )[^\]\n]*\]\.(mean|sum|std|max|min|var)\(",
        rules=SLOW,
        where="step evaluation",
    ),
    SlowCall(
        "permutations-one-by-one",
        "the loss is computed anew for each order of the sources",
        "compute it once for each pair of an estimate and a source, as a matrix, and look for the "
        "best order in that: add up its entries by an index of all permutations, or use "
        "scipy.optimize.linear_sum_assignment for many",
        sources.PERMUTED,
        "*",
        in_loop=True,
        frames=r"^$|^torch/",
        within=r"\A(?=[\s\S]*\bpermutations\()[\s\S]*(?:\bfor (\w+) in [^\n]*\bpermutations\("
        r"[\s\S]*\[[^\]\n]*\b\1\b[^\]\n]*\]|\[[^\]\n]*\b(\w+)\b[^\]\n]*\][^\n]* for \2 in [^\n]*"
        r"\bpermutations\()",
        where="step evaluation",
    ),
    SlowCall(
        "diagonal-covariance-made-dense",
        "a covariance that is zero but for its diagonal is factorised as a whole matrix, at the "
        "cube of its size",
        "use torch.distributions.Independent(Normal(mean, variance.sqrt()), 1), which has the same "
        "density and works on the diagonal alone",
        sources.MULTIVARIATE,
        "torch.distributions.MultivariateNormal torch.distributions.multivariate_normal."
        "MultivariateNormal",
        frames=r"^$|^torch/",
        within=r"MultivariateNormal\([^@\n]*torch\.(?:diag|diag_embed|eye)\(|\b(\w+) = [^@\n]*"
        r"torch\.(?:diag|diag_embed|eye)\([^@\n]*\n[\s\S]*MultivariateNormal\([^\n]*\b\1\b",
        where="step evaluation",
    ),
    SlowCall(
        "low-rank-covariance-made-dense",
        "a covariance of few columns and a diagonal is made a whole matrix, and factorised as one",
        "use torch.distributions.LowRankMultivariateNormal(mean, factor, diagonal), which "
        "factorises a matrix as large as the number of columns",
        sources.LOW_RANK_NORMAL,
        "torch.distributions.MultivariateNormal torch.distributions.multivariate_normal."
        "MultivariateNormal",
        frames=r"^$|^torch/",
        within=r"\b([\w.]+) @ \1\.(?:T|mT|t\(\)|transpose\([^()]*\)) \+ [^\n]*torch\.diag(?:_embed"
        r")?\([\s\S]*MultivariateNormal\(|MultivariateNormal\([^\n]*\b([\w.]+) @ \2\.(?:T|mT|"
        r"t\(\)|transpose\([^()]*\)) \+ [^\n]*torch\.diag",
        where="step evaluation",
    ),
    SlowCall(
        "projections-one-by-one",
        "samples are projected to one line after another, and sorted on each",
        "project to all lines at once, and sort the columns: theta = F.normalize(torch.randn(d, "
        "n), dim=0); (x @ theta).sort(0).values - (y @ theta).sort(0).values",
        sources.SLICED,
        "*",
        in_loop=True,
        frames=r"^$|^torch/",
        within=r"for \w+ in range\([^\n]*:\n(?=[\s\S]*(?:randn\(|normal_\())[\s\S]*(?:@|matmul\(|"
        r"mv\()[\s\S]*\bsort\(",
        where="step evaluation",
    ),
    SlowCall(
        "mask-by-diagonals",
        "a mask that depends on the size of the batch alone is filled entry by entry, anew each "
        "time",
        "make it once for the size (register_buffer), of whole ranges: row = torch.arange(2 * n); "
        "mask = row[:, None] % n == row % n",
        sources.NT_XENT,
        "*",
        in_loop=True,
        frames=r"^$|^torch/",
        within=r"\A(?:@.*\n)*def (?!__init__)[\s\S]*for (\w+) in range\([^\n]*:\n\s+(?:[\w.]+\["
        r"\1, \1\] = [^\n]*\n\s+)?[\w.]+\[(?:\1, [\w.]+ \+ \1|[\w.]+ \+ \1, \1|\1, \1 \+ [\w.]+|"
        r"\1 \+ [\w.]+, \1)\] = (?:0|1|False|True|0\.0|1\.0)\b",
        where="step evaluation",
    ),
    SlowCall(
        "anchored-one-by-one",
        "the distance of each weight from its earlier value is computed by itself, forward and "
        "backward",
        "add its gradient for all weights at once, after backward and under torch.no_grad(): "
        "torch._foreach_addcmul_(grads, importances, torch._foreach_sub(weights, old), value=2 * "
        "factor), on lists made once",
        sources.FOREACH,
        "*",
        in_loop=True,
        frames=r"^$|^torch/",
        within=r"for (\w+), (\w+) in [^\n]*named_parameters\(\)[\s\S]*\b(?:\2 - [\w.]+\[\1\]|"
        r"[\w.]+\[\1\] - \2\b)\)(?:\.pow\(2\)| \*\* 2|\.square\(\))|\((\w+) - [\w.]+\[(\w+)\]\)"
        r"(?:\.pow\(2\)| \*\* 2|\.square\(\))[^\n]* for \4, \3 in ",
        where="step",
    ),
    SlowCall(
        "path-one-by-one",
        "gradients at the points between two inputs are computed one after another",
        "make all points one batch (start + alphas.view(-1, 1, 1, 1) * (x - start)), in parts "
        "where memory is short, and call backward once of the sum of its outputs",
        sources.PATHS,
        "*",
        in_loop=True,
        frames=r"^$|^torch/",
        within=r"for (\w+) in [^\n]*:\n(?=[\s\S]*(?:autograd\.grad\(|\.backward\())[\s\S]*\b(\w+) "
        r"\+ \(?(?:float\()?\1\b[^\n*]*\* \(\w+ - \2\)",
    ),
    SlowCall(
        "acyclicity-by-exponential",
        "the exponential of a whole matrix is computed, forward and backward, for its trace",
        "use the logarithm of a determinant, which is a fraction of the work and also zero for "
        "graphs without cycles: -torch.linalg.slogdet(s * torch.eye(d) - w * w)[1] + d * "
        "math.log(s)",
        sources.ACYCLIC,
        "torch.matrix_exp torch.linalg.matrix_exp torch.trace *.trace",
        frames=r"^$|^torch/",
        within=r"trace\(torch\.(?:linalg\.)?matrix_exp\(|matrix_exp\([^\n]*\.(?:trace\(|diagonal"
        r"\()|\b(\w+) = torch\.(?:linalg\.)?matrix_exp\([^\n]*\n[\s\S]*(?:trace\(\1\)|\b\1\.trace"
        r"\()",
        where="step",
    ),
    SlowCall(
        "bins-by-masks",
        "all numbers are compared with the edges of one bin after another",
        "look up the bin of each once, and add up by it: i = torch.bucketize(x, edges[1:-1]); "
        "torch.bincount(i, minlength=n) counts, and torch.zeros(n).index_add_(0, i, values) sums",
        sources.BINNED,
        "*",
        in_loop=True,
        frames=r"^$|^torch/",
        within=r"for (?:\w+, )?\(?(\w+), (\w+)\)? in (?:enumerate\()?zip\([^\n]*:\n[\s\S]*(?:"
        r"\.g[te]\(\1\b[^\n]*\.l[te]\(\2\b|>=? \1\) [*&] \([^\n]*<=? \2\))|for (\w+) in range\("
        r"[^\n]*:\n[\s\S]*>=? [\w.]+\[\3\]\) [*&] \([^\n]*<=? [\w.]+\[\3 \+ 1\]\)",
        where="step evaluation",
    ),
    SlowCall(
        "radius-by-eigenvalues",
        "all eigenvalues are computed, for the largest of them",
        "take some steps of power iteration with a vector that is kept: v = F.normalize(w @ v, "
        "dim=0), and the norm of w @ v then, every N steps",
        sources.SPECTRAL,
        "torch.linalg.eigvals *.abs torch.abs *.max torch.max *.amax",
        frames=_TORCH,
        given=r"eigvals\([^\n]*\.abs\(\)\.a?max\(|max\(torch\.abs\(torch\.linalg\.eigvals\(|"
        r"torch\.abs\(torch\.linalg\.eigvals\([^\n]*\)\)\.a?max\(|^torch\.linalg\.eigvals\(",
        within=r"eigvals\([^\n]*\.abs\(\)\.a?max\(|max\(torch\.abs\(torch\.linalg\.eigvals\(|"
        r"torch\.abs\(torch\.linalg\.eigvals\([^\n]*\)\)\.a?max\(",
        where="step evaluation",
    ),
)
