"""Layers, losses and what is computed for them anew, or one by one, at each call."""

from __future__ import annotations

from perftui.diagnosis.slow_calls import sources
from perftui.diagnosis.slow_calls.row import EACH, SlowCall

LOOPS = "loop-of-indexing per-parameter-loop"
SLOW = (
    f"{LOOPS} python-bound largest-part slow-operator sync-bound evaluation launch-bound "
    "slow-steps growing-steps many-small-copies input-in-main-thread input-bound "
    "input-worker-bound"
)
"""Rules whose findings are about small calls."""

ROWS = (
    SlowCall(
        "parametrized-in-loop",
        "a parametrized weight is computed anew in each turn of the loop over {over}",
        "put torch.nn.utils.parametrize.cached() around the loop, or take the weight once "
        "before it",
        sources.PARAMETRIZED,
        "*",
        loop=r"parametrized",
        rules=f"{LOOPS} python-bound",
    ),
    SlowCall(
        "decoded-by-position",
        "a decoder is called for each of {over} (line {begins}), on all of {whole} up to there, "
        "though {whole} is known before",
        "make one pass over all of {whole} but its last position, with a causal mask "
        "(is_causal=True, or generate_square_subsequent_mask), and take its result at every "
        "position",
        sources.CAUSAL,
        "*",
        loop=r"^(time steps|columns) free.* decoded",
        rules=f"{SLOW} layout-copies compute-bound",
        where="step",
    ),
    SlowCall(
        "recurrent-layer-in-loop",
        "a recurrent layer is called once for each of {over} (line {begins}), though all that it "
        "reads but its own state is known before",
        "make one call with the whole sequence, of {whole} shifted by one step "
        "(torch.cat([first, {whole}[:, :-1]], 1)): the layer hands its state on itself, and one "
        "loss takes all",
        sources.CELLS,
        "*",
        loop=r"carry.* taught",
        rules=SLOW,
        where="step evaluation",
        general=True,
    ),
    SlowCall(
        "recurrence-for-each",
        "{over} are worked through one by one (line {begins}), each with a loop of its own, whose "
        "turns need {needs} of the one before",
        "run the inner loop once for all of them, with a dimension more, and "
        "torch.where(mask[:, t, None], new, {needs}) where lengths differ",
        sources.VECTORIZE,
        "*",
        loop=r"free.* around$",
        rules=SLOW,
        where="step evaluation",
        general=True,
    ),
    SlowCall(
        "cell-fed-back",
        "a recurrent cell is called once for each of {over}, and reads what needs {needs} of the "
        "step before, so no nn.LSTM can do it",
        "compute what does not need {needs} before the loop (keys and projections of the memory), "
        "and torch.compile what is left",
        sources.CELLS,
        "*",
        loop=r"carry.* fed",
        rules=f"{SLOW} compute-bound",
        where="step evaluation",
    ),
    SlowCall(
        "triples-repeated",
        "a matrix of all pairs is repeated for each sample, which makes work and memory for all "
        "triples",
        "broadcast views instead of repeat; for the nearest one beyond each pair, sort the rows "
        "once and look them up with torch.searchsorted",
        sources.CDIST,
        "*",
        frames=r"^$|^torch/",
        within=r"(\w+) = (len\(\w+\)|\w+\.(size\(0\)|shape\[0\]))\n[\s\S]*\.repeat\(\1, 1\)",
        where="step evaluation",
        general=True,
    ),
    SlowCall(
        "differences-broadcast",
        "the differences of all pairs are made as one tensor, a vector for each pair, and go "
        "through memory several times, forward and backward",
        "use torch.cdist(a, b), or a @ b.T and the squares of both, which only make one number for "
        "each pair",
        sources.CDIST,
        "*",
        frames=r"^$|^torch/(_tensor|functional|nn/functional)\.py",
        within=r"(\w\[:, None(, :)?\] - \w+\[None|\w\.unsqueeze\((1|-2)\) - \w+\.unsqueeze\(0\))"
        r"[\s\S]{0,80}(pow\(2\)|square\(|abs\(|\*\* 2|norm\()[\s\S]{0,20}(sum|mean|norm|dim)\b",
        rules="memory-bound-elementwise page-faults compute-bound slow-operator largest-part",
        where="step",
        least=0.5,
        general=True,
    ),
    SlowCall(
        "pairs-broadcast",
        "each operator on all pairs makes a tensor as large as their number, forward and backward, "
        "also for pairs that do not count",
        "gather the pairs that count first (i, j = torch.where(mask), or torch.triu_indices), or "
        "draw some of them, and use one operator for the loss of each: F.softplus(-difference), "
        "F.margin_ranking_loss, binary_cross_entropy_with_logits",
        sources.PAIRS,
        "*",
        frames=r"^$|^torch/(_tensor|functional|nn/functional)\.py",
        within=r"\w\[(\.\.\., )?:, None(, :)?\] (-|<|>|<=|>=) \w+\[(\.\.\., )?None|"
        r"\w\.unsqueeze\((1|-1)\) (-|<|>) \w+\.unsqueeze\((0|-2)\)",
        rules="memory-bound-elementwise page-faults compute-bound slow-operator largest-part",
        where="step",
        least=0.5,
        general=True,
    ),
    SlowCall(
        "returns-from-each-step",
        "the discounted sum from each step on is computed anew, which takes the square of the "
        "number of steps",
        "go through the steps once, backwards: total = reward[t] + discount * total",
        sources.RETURNS,
        "*",
        loop=r".",
        rules=SLOW,
        within=r"for \(?(\w+)\)? in range\([^\n]*:\n[\s\S]{0,120}for \(?(\w+)(, \w+\)?)? in "
        r"(enumerate\(\w+\[\1:|range\(\1, )[\s\S]{0,80}\*\* \(?\2",
        general=True,
    ),
    SlowCall(
        "confusion-by-pixel",
        "a confusion matrix is counted one prediction at a time",
        "count all pairs at once: torch.bincount(target * classes + predicted, minlength=classes "
        "** 2).view(classes, classes), on flattened tensors",
        sources.CONFUSION,
        "*",
        loop=r".",
        rules=SLOW,
        within=r"for \(?(\w+), (\w+)\)? in zip\([^\n]*:\n\s+[\w.]+\[\(?(\1|\2)(\.\w+\(\))?, "
        r"(\1|\2)(\.\w+\(\))?\)?\] \+= 1",
        general=True,
    ),
    SlowCall(
        "confusion-by-masks",
        "a confusion matrix is counted by a mask for each pair of classes, which goes through all "
        "predictions each time",
        "count all pairs at once: torch.bincount(target * classes + predicted, minlength=classes "
        "** 2).view(classes, classes), on flattened tensors",
        sources.CONFUSION,
        "*",
        given=r"==[^=]*[&*][^=]*==|logical_and\([^=]*==[^=]*==",
        loop=r"^(elements|pairs|classes|samples|columns) ",
        general=True,
    ),
    SlowCall(
        "pairs-one-by-one",
        "pairs of {whole} are compared one by one, in two loops",
        "broadcast ({whole}[:, None] with {whole}[None]), torch.cdist, or a product of the "
        "matrix with its transpose; the pairs themselves by torch.triu_indices",
        sources.VECTORIZE,
        "*",
        loop=r"^pairs free",
        rules=SLOW,
        general=True,
    ),
    SlowCall(
        "table-of-recurrences",
        "{needs} is filled element by element, each from those before",
        "all elements of an anti-diagonal need only older ones: fill one diagonal at a time, for "
        "the whole batch, or compile the function with numba",
        sources.VECTORIZE,
        "*",
        loop=r"^(elements|pairs) carry",
        rules=SLOW,
        general=True,
    ),
    SlowCall(
        "elements-one-by-one",
        "{over} are computed one by one in Python",
        "operators on the whole of {whole}: comparisons make masks, where() chooses, shifted "
        "slices reach neighbours",
        sources.VECTORIZE,
        "*",
        loop=r"^elements free",
        rules=SLOW,
        general=True,
    ),
    SlowCall(
        "experts-one-by-one",
        "experts are called one after another, each on the tokens that a mask picks for it",
        "sort the tokens by expert once, and use torch._grouped_mm, or torch.bmm of stacked "
        "weights with a fixed capacity",
        sources.EXPERTS,
        "*",
        loop=r"^modules free",
        rules=SLOW,
        within=r"for (?:\w+, )?\w*expert\w* in |for \w+ in range\([^\n]*expert",
        where="step evaluation",
        general=True,
    ),
    SlowCall(
        "modules-one-by-one",
        "the modules of {whole} are called one after another, though none needs another's result",
        "use one layer with all outputs, split afterwards, if they read the same input; else "
        "torch.bmm of stacked weights, a grouped convolution, or torch.func.stack_module_state "
        "with vmap",
        sources.HEADS,
        "*",
        loop=r"^modules free",
        rules=SLOW,
        where="step evaluation",
        general=True,
    ),
    SlowCall(
        "cell-step-by-step",
        "a recurrent cell is called once for each of {over}",
        "use nn.LSTM, nn.GRU or nn.RNN with the same weights on the whole sequence",
        sources.CELLS,
        "*",
        loop=r"carry.* cell",
        rules=SLOW,
        where="step evaluation",
        general=True,
    ),
    SlowCall(
        "linear-recurrence",
        "{needs} of each turn is a multiple of the one before and something more, computed one by "
        "one",
        "filter the whole array, once for all that reads it: scipy.signal.lfilter([1], [1, "
        "-factor], ...), flipped where the loop runs backwards, or "
        "torchaudio.functional.lfilter where gradients are needed",
        sources.LFILTER,
        "*",
        loop=r"carry linear",
        rules=SLOW,
        general=True,
    ),
    SlowCall(
        "calls-ahead",
        "{over} are worked through one by one, since each needs {needs} of the one before; "
        "{ahead} does not",
        "call it once on all of {whole} before the loop, and torch.compile what is left",
        sources.CELLS,
        "*",
        loop=r"^time steps carry.* ahead",
        rules=SLOW,
        where="step evaluation",
        general=True,
    ),
    SlowCall(
        "pieces-one-by-one",
        "{over} are worked through one by one, since each needs {needs} of the one before, and for "
        "each piece backward fills the gradient of the whole tensor",
        "take the pieces at once, with unbind() before the loop, and apply what does not need "
        "{needs} to all at once; nn.LSTM or nn.GRU do the rest where it is one, else torch.compile",
        sources.CELLS,
        "*",
        loop=r"^(time )?steps carry(?!.* ahead)",
        given=r"^[a-z]\w*\[:, (:, )?\w+\]$",
        rules=SLOW,
        where="step evaluation",
        general=True,
    ),
    SlowCall(
        "time-steps-one-by-one",
        "{over} are worked through one by one, since each needs {needs} of the one before",
        "apply what does not need {needs} to all at once before the loop; for the rest nn.LSTM or "
        "nn.GRU where it is one, cumsum or a scan where it is a sum, else torch.compile",
        sources.CELLS,
        "*",
        loop=r"^time steps carry",
        rules=SLOW,
        where="step evaluation",
        general=True,
    ),
    SlowCall(
        "steps-ahead",
        "{over} are worked through one by one, since each needs {needs} of the one before; "
        "{ahead} does not",
        "call it once on all of {whole} before the loop, and torch.compile what is left",
        sources.CELLS,
        "*",
        loop=r"^steps carry.* ahead",
        rules=LOOPS,
        where="step evaluation",
        general=True,
    ),
    SlowCall(
        "steps-one-by-one",
        "{over} are worked through one by one, since each needs {needs} of the one before",
        "apply what does not need {needs} to all at once before the loop; for the rest nn.LSTM or "
        "nn.GRU where it is one, cumsum or a scan where it is a sum, else torch.compile",
        sources.CELLS,
        "*",
        loop=r"^steps carry",
        rules=LOOPS,
        where="step evaluation",
        general=True,
    ),
    SlowCall(
        "cross-entropy-for-each",
        "a loss is computed for each of {over} by itself, though none needs another's",
        "make one call on all, with both arguments flattened (.flatten(0, 1)): {at_once}; use "
        "reduction='none' with a mask or weights where not all count alike",
        sources.VECTORIZE,
        "*",
        loop=r"^(time steps|columns|samples) free.* loss classes",
        rules=SLOW,
        where="step evaluation",
        general=True,
    ),
    SlowCall(
        "loss-for-each",
        "a loss is computed for each of {over} by itself, though none needs another's",
        "make one call on all (lists stacked before): {at_once}, whose mean is the mean of "
        "theirs; use reduction='none' with a mask or weights where not all count alike",
        sources.VECTORIZE,
        "*",
        loop=r"^(time steps|columns|samples) free.* loss",
        rules=SLOW,
        where="step evaluation",
        general=True,
    ),
    SlowCall(
        "rows-of-keys",
        "all of {whole} is compared with one key after another, to find the rows of each",
        "sort it once before training, and keep where each key begins (order = {whole}.argsort(); "
        "begin = F.pad({whole}.bincount(minlength=n).cumsum(0), (1, 0))): the rows of i are then "
        "order[begin[i]:begin[i + 1]]; means over neighbours of all keys at once by index_add_ or "
        "a sparse matrix",
        sources.TABLE_GROUPED,
        "*",
        loop=r"^keys ",
        rules=f"{SLOW} compute-bound",
        general=True,
    ),
    SlowCall(
        "classes-one-by-one",
        "a mask and small operators for each class of {whole}, one after another",
        "make one call for all classes: one_hot or bincount of {whole}, index_add_ or "
        "scatter_add_ by it, or a product with a matrix of classes",
        sources.VECTORIZE,
        "*",
        loop=r"^classes free",
        rules=SLOW,
        general=True,
    ),
    SlowCall(
        "added-one-by-one",
        "{whole} is added to entry by entry, at an index out of the data",
        "count all at once with torch.bincount (of row * columns + column where there are two "
        "indices), or call {whole}.index_put_((indices,), values, accumulate=True); for arrays, "
        "np.bincount(indices, weights) or np.add.at",
        sources.INDEX_ADD,
        "*",
        loop=r"^entries",
        rules=SLOW,
        general=True,
    ),
    SlowCall(
        "columns-one-by-one",
        "{over} are worked through one by one, though none needs another's result",
        "take all of them at once: {whole} as a whole in place of its piece, the other operands "
        "with a dimension more ([:, None]) to broadcast, and torch.vmap where that is hard to "
        "write",
        sources.VMAP,
        "*",
        loop=r"^(time steps|columns) free",
        rules=SLOW,
        where="step evaluation",
        general=True,
    ),
    SlowCall(
        "samples-compared",
        "{over} are worked through one by one, and each is compared with its number",
        "compare all at once with torch.arange(len({whole}))[:, None], and reduce along dim=1 "
        "(argmax, sum, any)",
        sources.VECTORIZE,
        "*",
        loop=r"^samples free.* compared",
        rules=SLOW,
        general=True,
    ),
    SlowCall(
        "filled-by-lengths",
        "{over} are worked through one by one, for a part of another length in each",
        "make one mask for all, torch.arange(longest) < lengths[:, None], and use where() or a "
        "product with it; torch.nn.utils.rnn.pad_sequence joins tensors of several lengths",
        sources.PADDING,
        "*",
        loop=r"^(samples|lookups) free.* prefix",
        rules=SLOW,
        general=True,
    ),
    SlowCall(
        "windows-one-by-one",
        "{over} are worked through one by one, for a window at another place in each",
        "index all windows at once: rows torch.arange(len({whole}))[:, None], columns "
        "starts[:, None] + torch.arange(size); for images grid_sample or torchvision.ops.roi_align",
        sources.VECTORIZE,
        "*",
        loop=r"^samples free.* window",
        rules=SLOW,
        where="step evaluation",
        general=True,
    ),
    SlowCall(
        "gathered-one-by-one",
        "entries at other places are gathered for each of {over} by itself",
        "join the lists of places once, with the number of the sample for each entry "
        "(repeat_interleave), index by all of them, and add up with index_add_ or scatter_reduce_",
        sources.INDEX_ADD,
        "*",
        loop=r"^samples free.* gathers",
        rules=SLOW,
        where="step evaluation",
        general=True,
    ),
    SlowCall(
        "looked-up-one-by-one",
        "{whole} is looked up for one entry after another",
        "index it by all entries at once: {whole}[indices] of a tensor or array, a table made "
        "once where it is a dict",
        sources.VECTORIZE,
        "*",
        loop=r"^lookups free.* only",
        rules=SLOW,
        general=True,
    ),
    SlowCall(
        "repeated-draws",
        "the same is computed in each of {over}, one by one, though none needs another's result",
        "draw what differs for all at once, with a dimension more (an index of turns x samples by "
        "torch.rand(turns, samples).argsort(1) or torch.randint), and reduce over it; of pairs "
        "take all of them: the matrix product a @ b.T",
        sources.VMAP,
        "*",
        loop=r"^repeats free",
        rules=SLOW,
        where="step evaluation",
        general=True,
    ),
    SlowCall(
        "filter-of-a-product",
        "the filter of {call} is the product of two vectors, and each pixel is multiplied by all "
        "of its numbers",
        "from about 25 numbers a side on, filter with one vector after the other: two calls, with "
        "filters of k x 1 and 1 x k numbers",
        sources.SEPARABLE,
        "torch.nn.functional.conv2d(,torch.outer) torch.conv2d(,torch.outer)",
        native=True,
        least=0.5,
    ),
    SlowCall(
        "stacked-in-loop",
        "{call} is called for one piece after the other, and the results are then joined",
        "none needs the one before it: compute all with one call, with inputs that have a "
        "dimension more to broadcast, or torch.vmap",
        sources.VMAP,
        "torch.*",
        within=r"\.append\([\s\S]*\b(stack|cat|concat|hstack|vstack)\(",
        loop=r"^ free",
        rules=SLOW,
        where="step evaluation",
        general=True,
    ),
    SlowCall(
        "turns-one-by-one",
        "small operators are called in each turn of the loop over {whole}",
        "where no turn needs another, one call for all of them, with a dimension more, or "
        "torch.vmap; else torch.compile",
        sources.VMAP,
        "*",
        loop=r"^(items|lookups)? (free|carry)",
        rules=LOOPS,
        general=True,
    ),
    SlowCall(
        "samples-one-by-one",
        "{over} are worked through one by one, though none needs another's result",
        "write it for the whole of {whole}: reduce along its other dimensions (dim=1), and "
        "pad_sequence with a mask where lengths differ, or torch.vmap",
        sources.VECTORIZE,
        "*",
        loop=r"^samples free",
        rules=SLOW,
        where="step evaluation",
        general=True,
    ),
    SlowCall(
        "environments-one-by-one",
        "the environments of {whole} are stepped one after another",
        "use a simulator with arrays for all of them, or gymnasium.vector.AsyncVectorEnv in "
        "other processes, and call the policy once for all observations",
        sources.VECTOR_ENV,
        "*",
        loop=r"^environments",
        rules=SLOW,
        where="step evaluation",
        general=True,
    ),
    SlowCall(
        "words-one-by-one",
        "{whole} is gone through piece by piece in Python",
        "use a fast tokenizer on the whole batch, or np.frombuffer(text.encode(), np.uint8) as "
        "an index into a table of ids; do that once before training if texts stay the same",
        sources.TOKENS_AT_ONCE,
        "*",
        loop=r"^texts",
        rules=SLOW,
        general=True,
    ),
    SlowCall(
        "parametrized-each-use",
        "the parametrized weight is computed anew at each use of its layer",
        "put the step into with torch.nn.utils.parametrize.cached(), or take the weight once "
        "before the loop",
        sources.PARAMETRIZED,
        "*.__call__ *.forward ?.*",
        frames=r"torch/nn/utils/(parametrize|parametrizations|spectral_norm|weight_norm)\.py",
        in_loop=True,
    ),
    SlowCall(
        "parametrization",
        "most of the line's time is computing a parametrized weight, not using it",
        "put torch.nn.utils.parametrize.cached() around a step that uses it several times; "
        "orthogonal(orthogonal_map='cayley' or 'householder') is cheaper than 'matrix_exp'",
        sources.PARAMETRIZED,
        frames=r"torch/nn/utils/(parametrize|parametrizations)\.py",
        least=0.5,
    ),
    SlowCall(
        "cell-in-loop",
        "a recurrent cell called in a Python loop launches its small operators for each time step",
        "use nn.LSTM, nn.GRU or nn.RNN on the whole sequence, or torch.compile the loop",
        sources.CELLS,
        "torch.nn.LSTMCell.__call__ torch.nn.GRUCell.__call__ torch.nn.RNNCell.__call__",
        frames=r"torch/nn/modules/rnn\.py",
        in_loop=True,
        operators="aten::lstm_cell aten::gru_cell aten::rnn_tanh_cell aten::_thnn_fused_lstm_cell "
        "aten::_thnn_fused_gru_cell",
    ),
    SlowCall(
        "cells-by-layer",
        "recurrent cells are called one by one in Python, for each time step and layer",
        "use nn.LSTM, nn.GRU or nn.RNN on the whole sequence, or torch.compile the loop",
        sources.CELLS,
        frames=r"torch/nn/modules/rnn\.py:\d+ (LSTM|GRU|RNN)Cell\.forward",
    ),
    SlowCall(
        "packed-sequence",
        "a packed sequence is computed in slices, one time step after another",
        "pass padded batches (sorted into buckets by length) and mask the outputs",
        sources.PACKED,
        "torch.nn.utils.rnn.pack_padded_sequence torch.nn.utils.rnn.pack_sequence "
        "torch.nn.utils.rnn.pad_packed_sequence torch.nn.*.__call__(torch.nn.utils.rnn."
        "PackedSequence)",
        frames=r"torch/nn/(utils|modules)/(rnn|module)\.py",
        operators="aten::_pack_padded_sequence aten::_pad_packed_sequence "
        "aten::_pack_padded_sequence_backward",
    ),
    SlowCall(
        "matrix-inverted",
        "{call} inverts a matrix to multiply by it",
        "use torch.linalg.solve, or a Cholesky factor with torch.cholesky_solve",
        sources.SOLVE,
        "torch.inverse torch.linalg.inv torch.linalg.pinv torch.pinverse *.inverse *.pinverse",
        native=True,
        operators="aten::linalg_inv aten::linalg_inv_ex aten::inverse aten::linalg_pinv",
    ),
    SlowCall(
        "singular-values",
        "{call} computes all singular values, anew each time",
        "for the largest alone, some steps of power iteration with a vector that is kept (as "
        "torch.nn.utils.parametrizations.spectral_norm does), every N steps, or for a batch "
        "of matrices in one call",
        sources.SPECTRAL,
        "torch.linalg.svdvals torch.linalg.matrix_norm torch.linalg.cond",
        given=r"svdvals|cond\(|ord=(-?2|'nuc')|, (-?2|'nuc')\)",
        operators="aten::linalg_svdvals aten::linalg_matrix_norm",
        native=True,
    ),
    SlowCall(
        "matrix-decomposed",
        "{call} decomposes matrices one after another; on a GPU the host waits for each",
        "give it all matrices as one batch, do it every N steps, or on the CPU for small ones",
        sources.SMALL_EIGEN,
        "torch.svd torch.linalg.svd torch.linalg.eigh torch.linalg.eig torch.linalg.svdvals "
        "torch.linalg.eigvalsh torch.symeig torch.svd_lowrank torch.pca_lowrank",
        native=True,
        operators="aten::linalg_svd aten::_linalg_svd aten::linalg_eigh aten::_linalg_eigh "
        "aten::linalg_eig aten::svd LinalgSvdBackward0 LinalgEighBackward0",
    ),
    SlowCall(
        "matrix-orthogonalised",
        "{call} works on one matrix after another",
        "less often, or for all matrices as one batch; small ones on the CPU or from a batched "
        "Cholesky factor",
        sources.QR_ON_GPU,
        "torch.linalg.qr torch.qr torch.nn.utils.parametrizations.orthogonal torch.linalg.lstsq "
        "torch.matrix_exp torch.linalg.matrix_exp",
        native=True,
        operators="aten::linalg_qr aten::linalg_lstsq aten::linalg_matrix_exp LinalgQrBackward0 "
        "LinalgMatrixExpBackward0",
    ),
    SlowCall(
        "covariance-given",
        "the covariance is checked and factorised for each distribution, and again in backward",
        "pass its Cholesky factor: scale_tril=",
        sources.MULTIVARIATE,
        "torch.distributions.MultivariateNormal torch.distributions.multivariate_normal."
        "MultivariateNormal",
        given=r"covariance_matrix|precision_matrix|Normal\([^,=]*,[^=]*\)$",
        frames=r"torch/distributions/",
    ),
    SlowCall(
        "distribution-validated",
        "torch.distributions checks all parameters and samples, and waits for a GPU's answer",
        "pass validate_args=False, or Distribution.set_default_validate_args(False) at the start",
        sources.VALIDATION,
        "torch.distributions.*",
        frames=r"torch/distributions/(distribution|constraints)\.py",
        without="validate_args=False",
    ),
    SlowCall(
        "distribution-made",
        "a distribution object is made, with its checks, for each call",
        "write its formula, or make it once; validate_args=False",
        sources.VALIDATION,
        frames=r"torch/distributions/",
        least=0.6,
    ),
    SlowCall(
        "bilinear",
        "a Bilinear layer goes through its outputs one by one, forward and backward",
        "multiply one side by the weight as one matrix, then torch.bmm with the other; or "
        "einsum in two steps",
        sources.BILINEAR,
        "torch.nn.Bilinear.__call__ torch.nn.functional.bilinear *.__call__",
        frames=r"torch/nn/modules/linear\.py:\d+ Bilinear|torch/nn/functional\.py\S* bilinear",
        operators="aten::bilinear aten::_trilinear TrilinearBackward0",
    ),
    SlowCall(
        "einsum-of-three",
        "without opt_einsum, {call} multiplies its operands from left to right, even where "
        "that makes a huge tensor between",
        "contract the small operand with one of the others first, then matmul, or pip "
        "install opt_einsum",
        sources.EINSUM,
        "torch.einsum",
        frames=r"^$|torch/functional\.py|opt_einsum",
        given=r"einsum\(['\"][^'\"]*,[^'\"]*,",
        least=0.5,
    ),
    SlowCall(
        "loss-over-ignored",
        "logits and softmax are computed for every position, also for those that the loss ignores",
        "if they are many, select the positions first (hidden[labels != ignore_index]) and "
        "apply the head to those",
        sources.IGNORED,
        "torch.nn.functional.cross_entropy",
        frames=r"^$|torch/nn/functional\.py",
        given=r"ignore_index=",
        least=0.5,
    ),
    SlowCall(
        "nodes-one-by-one",
        "the function calls itself for each node or part, with small operators for each",
        "compute all nodes of the same depth as one batch, in a loop over depths",
        sources.HEADS,
        "*",
        frames=r"^$|^torch/",
        within=r"^(@.*\n)*def (\w+)\([\s\S]*(?:\bself\.|(?<![.\w]))\2\(",
        least=0.5,
        general=True,
    ),
    SlowCall(
        "mask-made-each-time",
        "{call} builds the attention mask anew for each call",
        "build it once for the longest sequence (register_buffer, persistent=False) and "
        "slice it, or pass is_causal=True to scaled_dot_product_attention",
        sources.CAUSAL_MASK,
        "torch.tril torch.triu *.tril *.triu *.tril_ *.triu_ "
        "torch.nn.Transformer.generate_square_subsequent_mask "
        "*.generate_square_subsequent_mask",
        frames=r"^$|torch/nn/modules/transformer\.py",
        given=r"\(",
        where="step evaluation",
    ),
    SlowCall(
        "positions-made-each-time",
        "constants that depend on the length alone are computed anew for each call",
        "compute them once (register_buffer, persistent=False) and slice, on the device of "
        "the model",
        sources.POSITION_CACHE,
        "torch.arange torch.linspace torch.meshgrid torch.eye torch.hann_window "
        "torch.hamming_window torch.fft.fftfreq torch.logspace",
        given=r"^torch\.(\w+\.)?\w+\(",
        within=r"^(@.*\n)*def (forward|__call__|encode|embed|warp\w*|meshgrid\w*|"
        r"\w*(stft|spectro)\w*|_?(get|make|create|build|gen\w*|compute)_\w*(grid|pos|emb|"
        r"anchor|prior|coord|offset)\w*)\(",
        native=True,
        where="step evaluation",
        least=0.4,
    ),
    SlowCall(
        "encoding-made-each-time",
        "sines and cosines of the positions are computed anew for each call",
        "compute them once for the longest sequence (register_buffer, persistent=False) and slice",
        sources.POSITIONS,
        "torch.sin torch.cos *.sin *.cos torch.outer",
        within=r"^(@.*\n)*def (forward|__call__|\w*(pos|rope|rotary)\w*)\([\s\S]*(arange|inv_freq|"
        r"positions?\b)",
        native=True,
        where="step evaluation",
        least=0.4,
    ),
    SlowCall(
        "transform-of-any-length",
        "{call} transforms as many numbers as both operands have together, less one, which often "
        "has large prime factors",
        "pad to the next power of two (n = 1 << (n - 1).bit_length()) or to "
        "scipy.fft.next_fast_len(n), and cut the result",
        sources.SCIPY_FFT,
        "torch.fft.rfft torch.fft.irfft torch.fft.fft torch.fft.ifft",
        within=r"= [^\n=]*(shape\[-1\]|size\(-1\)|len\(\w+\)|\w) \+ [^\n=]+ - 1\b|= 2 \* \w[^\n=]* "
        r"- 1\b",
        native=True,
        where="step evaluation",
    ),
    SlowCall(
        "transform-of-a-kept-length",
        "{call} transforms as many numbers as both operands have together, less one, which often "
        "has large prime factors",
        "pad to the next power of two (n = 1 << (n - 1).bit_length()) or to "
        "scipy.fft.next_fast_len(n), and cut the result",
        sources.SCIPY_FFT,
        "torch.fft.rfft torch.fft.irfft torch.fft.fft torch.fft.ifft",
        given=r"\bself\.\w+",
        of_class=r"self\.(\w+) = [^\n=]*(\+|2 \*)[^\n=]* - 1\n[\s\S]*fft\.\w+\([^\n]*\bself\.\1\b",
        native=True,
        where="step evaluation",
    ),
    SlowCall(
        "iterations-recorded",
        "backward goes through every iteration towards the optimum, though its gradient needs none "
        "of them",
        "run the iterations under torch.no_grad(), and use their result in the value at the "
        "optimum, whose gradient it does not change; or repeat the last one alone with gradients",
        sources.ENVELOPE,
        "torch.logsumexp *.logsumexp torch.softmax torch.log_softmax",
        within=r"(?i)sinkhorn|potential|\bdual\b",
        native=True,
        where="step",
        in_loop=True,
        least=0.2,
    ),
    SlowCall(
        "determinant",
        "{call} decomposes the whole matrix, and solves with it in backward",
        "give the map a form whose determinant is known: of triangular factors the sum of the "
        "logarithms of their diagonals, of I + u v' that of 1 + v' u",
        sources.FLOWS,
        "torch.linalg.slogdet torch.slogdet torch.logdet torch.linalg.det torch.det *.slogdet "
        "*.logdet",
        operators="aten::linalg_slogdet aten::_linalg_slogdet aten::linalg_det aten::_linalg_det",
        native=True,
        where="step evaluation",
    ),
    SlowCall(
        "layer-made-each-time",
        "a layer, with its weights, is made anew in each step",
        "make it once in __init__; of a function without weights use torch.nn.functional",
        sources.TUNING,
        "torch.nn.*",
        frames=r"torch/nn/(init|parameter)\.py|torch/nn/modules/\w+\.py\S* \S*(__init__|"
        r"reset_parameters)",
        given=r"^(torch\.)?(nn\.)?[A-Z]\w+\(",
        within=r"^(?!(@.*\n)*def __init__)",
        where="step evaluation",
    ),
    SlowCall(
        "attention-with-weights",
        "MultiheadAttention computes its weights as a large tensor, without the fused "
        "attention, unless told that they are not needed",
        "pass need_weights=False where they are thrown away",
        sources.NEED_WEIGHTS,
        "torch.nn.MultiheadAttention.*",
        frames=r"multi_head_attention_forward|MultiheadAttention\.forward",
        without=r"need_weights=False",
        least=0.4,
    ),
    SlowCall(
        "distances",
        "{call} and its backward pass work pair by pair, without matrix products",
        "where p is 2, compute them by matrix products: x.pow(2).sum(-1)[:, None] + "
        "y.pow(2).sum(-1) - 2 * x @ y.T",
        sources.CDIST,
        "torch.cdist torch.pdist torch.nn.functional.pdist",
        operators="aten::cdist aten::_cdist_forward aten::_cdist_backward aten::_pdist_forward "
        "CdistBackward0 PdistBackward0",
        native=True,
    ),
    SlowCall(
        "sparse-built-each-time",
        "{call} sorts and checks the indices of a sparse tensor each time",
        "build it once, coalesced (or as CSR), and change its values only",
        sources.GRAPHS,
        "torch.sparse_coo_tensor torch.sparse.FloatTensor torch.sparse_csr_tensor *.coalesce "
        "*.to_sparse *.to_sparse_csr",
        frames=r"^$|torch/sparse",
        operators="aten::coalesce aten::_coalesce aten::to_sparse aten::_to_sparse "
        "aten::sparse_coo_tensor",
        where="step evaluation",
    ),
    SlowCall(
        "graph-normalised",
        "the graph is normalised or completed anew in each call of the layer",
        "use GCNConv(cached=True) for one fixed graph, or gcn_norm once before training with "
        "normalize=False",
        sources.GRAPHS,
        frames=r"torch_geometric/(nn/conv/gcn_conv\.py\S* gcn_norm|utils/(loop|_?degree|_?scatter|"
        r"num_nodes|undirected|_coalesce)\.py)",
        where="step evaluation",
        least=0.3,
    ),
    SlowCall(
        "graph-built",
        "{call} searches neighbours anew each time",
        "build the graph once (pre_transform), or in the loader's workers, if positions do "
        "not change",
        sources.GRAPH_TRANSFORMS,
        "torch_geometric.nn.radius_graph torch_geometric.nn.knn_graph torch_cluster.* "
        "torch_geometric.utils.to_networkx torch_geometric.utils.to_dense_adj "
        "torch_geometric.utils.to_dense_batch dgl.graph dgl.knn_graph scipy.spatial.KDTree "
        "scipy.spatial.cKDTree sklearn.neighbors.KDTree",
        frames=r"^(torch_cluster|torch_geometric|dgl|scipy/spatial|sklearn)/|^$",
        where=EACH,
    ),
    SlowCall(
        "graphs-joined",
        "graphs of a batch are joined in Python, attribute by attribute",
        "use fewer attributes for each graph, larger graphs, joined graphs stored once, or more "
        "workers",
        sources.GRAPH_TRANSFORMS,
        frames=r"^(torch_geometric/(data|loader)|dgl/(batch|dataloading))",
        where="item",
        least=0.5,
    ),
    SlowCall(
        "nms-in-loop",
        "{call} is called for each class or image by itself",
        "use torchvision.ops.batched_nms with the class (or image) as idxs, and fewer boxes (a "
        "higher score, topk first)",
        sources.NMS_LOOPS,
        "torchvision.ops.nms torchvision.ops.box_iou torchvision.ops.roi_align "
        "torchvision.ops.generalized_box_iou",
        frames=r"^torchvision/|^$",
        in_loop=True,
    ),
    SlowCall(
        "ode-solved",
        "an ODE solver calls the model many times for each step of training",
        "use larger tolerances (rtol, atol), a fixed-step method (rk4 with few steps), or fewer "
        "output times",
        sources.CELLS,
        "torchdiffeq.odeint torchdiffeq.odeint_adjoint torchsde.sdeint diffrax.diffeqsolve",
        frames=r"^(torchdiffeq|torchsde|torchode)/",
    ),
    SlowCall(
        "frozen-encoder",
        "a frozen encoder of diffusers runs on each batch",
        "encode all images (or captions) once before training and store the latents, if "
        "nothing random comes before",
        sources.LATENTS,
        "*.encode *.encode_prompt",
        frames=r"^diffusers/",
        where="step",
    ),
    SlowCall(
        "text-generated",
        "{call} generates text token by token, with a forward pass for each",
        "generate fewer samples, evaluate less often, and use larger batches, a smaller "
        "max_new_tokens and use_cache=True",
        sources.SCORE_PER_EPOCH,
        "*.generate",
        frames=r"^transformers/generation",
    ),
)
