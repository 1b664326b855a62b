"""Work that shows in several lines together, by the names of ``perftui.script.forms``."""

from __future__ import annotations

from perftui.diagnosis.slow_calls import sources
from perftui.diagnosis.slow_calls.row import SlowCall

_ANY = r"^"
"""The form shows what the line does, whatever frames its samples show. Names of forms end in ``*``,
so that no method ``linear`` or ``net`` of the user's is taken for one by its last part."""

ROWS = (
    SlowCall(
        "linear-of-gathered",
        "{it} multiplies the features of both ends anew for each edge, and a node has many edges",
        "split its weight by columns, multiply each node once, then gather and add: "
        "(x @ to.t())[dst] + (x @ of.t())[src]",
        sources.MESSAGES,
        "gathered.linea*",
        frames=_ANY,
        where="step evaluation",
    ),
    SlowCall(
        "features-of-pairs",
        "{line} puts the features of both rows together for all n x n pairs, to multiply each",
        "split the weights in two, multiply each row by both halves once, and add them by "
        "broadcasting: (h @ a[:f])[:, None] + (h @ a[f:])[None]; a layer needs no copies either",
        sources.ALL_PAIRS,
        "paired.feature*",
        frames=_ANY,
        where="step evaluation",
    ),
    SlowCall(
        "net-of-pairs",
        "{it} works on the offsets of all n x n pairs of positions, of which 2 n - 1 differ",
        "apply it to torch.arange(1 - n, n) once, and index the result: "
        "table[position[:, None] - position + n - 1]",
        sources.OFFSETS,
        "positions.ne*",
        frames=_ANY,
        where="step evaluation",
    ),
    SlowCall(
        "attention-in-a-band",
        "the mask leaves each position those near it, and yet all pairs are computed",
        "cut the sequence into blocks as long as the window, and attend from each to itself and "
        "the blocks beside it; on a GPU flex_attention with create_block_mask",
        sources.FLEX,
        "banded.attentio*",
        frames=_ANY,
        where="step evaluation",
    ),
    SlowCall(
        "transform-by-convolution",
        "{call} computes a Fourier transform as products with all sines and cosines",
        "use torch.stft(x, n_fft, hop_length, window=window, return_complex=True), or "
        "torch.fft.rfft of the frames (x.unfold(-1, n_fft, hop) * window)",
        sources.STFT,
        "torch.nn.functional.conv1d torch.nn.functional.conv_transpose1d torch.conv1d",
        frames=_ANY,
        of_class=r"\A(?=[\s\S]*\bpi\b)(?=[\s\S]*\bcos\()[\s\S]*(register_buffer\('|self\.)"
        r"(\w+)(', | = )[\s\S]*conv(_transpose)?1d\([^,\n]+, (weight=)?self\.\2\b",
        where="step evaluation",
    ),
    SlowCall(
        "product-by-coordinates",
        "{x} is a sparse tensor in coordinates that was never coalesced: each product, forward and "
        "backward, sorts and converts it first",
        "convert it once, where it is made: .coalesce().to_sparse_csr()",
        sources.TORCH_SPARSE,
        "coordinates.m*",
        frames=_ANY,
        where="step evaluation",
    ),
    SlowCall(
        "derivative-by-derivative",
        "torch.autograd.grad computes the derivatives by all columns, and one of them is kept",
        "call it once for each output, and take the columns of what it gives: "
        "g = torch.autograd.grad(...)[0]; u_x, u_t = g[:, 0:1], g[:, 1:2]",
        sources.GRADIENTS,
        "grad.colum*",
        frames=_ANY,
        where="step evaluation",
    ),
    SlowCall(
        "blocks-of-a-batch",
        "{x} is computed between all samples of the batch, and each sample's own part is taken",
        "pad the targets to one number for all samples, and compute it sample by sample, as one "
        "batch: torch.cdist and broadcasting with a first dimension for the samples",
        sources.MATCHER,
        "blocks.diagona*",
        frames=_ANY,
        where="step evaluation",
    ),
    SlowCall(
        "network-made-each-time",
        "{line} makes a network anew each time, whose weights are drawn at random first",
        "make it once, and give it each set of weights: vector_to_parameters, load_state_dict or "
        "torch.func.functional_call",
        sources.TUNING,
        "made.modul*",
        frames=r"torch/nn/(init|parameter)\.py|torch/nn/modules/\w+\.py\S* \S*(__init__|"
        r"reset_parameters)",
        where="step evaluation",
    ),
    SlowCall(
        "enlarged-before-head",
        "{it} is interpolated to full size before the 1 x 1 convolution {x} of {line}, so both "
        "work on all of its channels at each pixel, forward and backward",
        "call {x} first, and interpolate what it gives, which has fewer channels: the two commute, "
        "so the result is the same but for rounding",
        sources.LOGITS_ENLARGED,
        "enlarged.hea*",
        frames=_ANY,
        where="step evaluation",
    ),
)
