"""Structures of models and steps that are written out, where one operator or less work would do."""

from __future__ import annotations

from perftui.diagnosis.slow_calls import sources
from perftui.diagnosis.slow_calls.row import SlowCall

_TORCH = r"^$|^torch/"
"""The line itself, or a function of torch that it calls."""

ROWS = (
    SlowCall(
        "backward-made-twice",
        "{line} is a second backward pass through the graph of one loss, which the "
        "first has computed gradients of",
        "make one: backward() leaves the gradients in p.grad, of the input too if it "
        "has requires_grad_(); or write what torch.autograd.grad gives into p.grad",
        sources.RETAINED,
        "torch.autograd.grad *.backward torch.Tensor.backward",
        frames=r"^$|^torch/(autograd|_tensor)",
        where="step",
        given=r"\b(grad|backward)\(",
        without=r"create_graph=True",
        within=r"\bgrad\((\w+), (?![^\n]*create_graph)[^\n]*retain_graph=True(?:(?!\n\s*\1 = |"
        r"\n\s*(?:else|elif|except|return|def)\b)[\s\S])*\b\1\.backward\(|\b(\w+)\.backw"
        r"ard\(retain_graph=True\)(?:(?!\n\s*\2 = |\n\s*(?:else|elif|except|return|def)"
        r"\b)[\s\S])*\bgrad\(\2, (?![^\n]*create_graph)",
    ),
    SlowCall(
        "computed-again",
        "{call} computes what the function has computed of the same before",
        "keep the first result in a name, and detach() it where no gradient is to flow",
        sources.CALLED_TWICE,
        "torch.softmax torch.log_softmax torch.nn.functional.softmax "
        "torch.nn.functional.log_softmax torch.nn.functional.normalize torch.cdist "
        "torch.sigmoid *.softmax *.log_softmax",
        frames=r"^$|^torch/",
        where="step evaluation",
        given=r"\b(softmax|log_softmax|normalize|cdist|sigmoid)\(",
        within=r"((?:[\w.]+\.)?(?:softmax|log_softmax|normalize|cdist|sigmoid)\(([\w.]*)(?:, [^"
        r"()\n]*)?\))(?:(?!\n\s*\2 = |\n\s*(?:else|elif|except|return|def)\b)[\s\S])*\1",
    ),
    SlowCall(
        "positions-interpolated",
        "the table of positions is resized anew in each call, forward and backward",
        "resize it once to the size of the training's images, where the weights are loaded, and "
        "in the step only for images of another size",
        sources.RESIZED_POSITIONS,
        "torch.nn.functional.interpolate",
        frames=r"^$|torch/nn/functional\.py",
        given=r"interpolate\((?:self\.)?\w*pos(?:_|ition|e)\w*",
        where="step evaluation",
    ),
    SlowCall(
        "jvp-by-two-backwards",
        "a derivative along a vector is computed by backward, and backward of that",
        "compute it forwards, in one pass: torch.func.jvp(f, (x,), (v,))[1]",
        sources.FORWARD_MODE,
        "torch.autograd.grad",
        frames=r"^$|^torch/",
        within=r"\b(\w+) = torch\.(?:zeros|ones|rand|randn)(?:_like)?\([^\n]*requires_grad=True\)"
        r"\n[\s\S]*\b(\w+),? = torch\.autograd\.grad\([^\n]*\b\1\b[^\n]*create_graph=True[^\n]*\n"
        r"[\s\S]*autograd\.grad\(\2(?:\[0\])?, \1\b",
        where="step evaluation",
    ),
    SlowCall(
        "reduced-from-the-start",
        "each turn reduces all up to its position, or from it on, anew, which takes the square of "
        "the length",
        "reduce once for all positions: cumsum (divided by torch.arange(1, n + 1) for means), "
        "cumprod, cummax or logcumsumexp, of the flipped tensor for what comes from a position on",
        sources.CUMSUM,
        "*.sum *.mean *.max *.min *.amax *.amin *.prod *.logsumexp torch.sum torch.mean torch.max "
        "torch.min torch.amax torch.amin torch.prod torch.logsumexp",
        frames=_TORCH,
        in_loop=True,
        given=r"\[(?:(?:\.\.\.|:), )*(?::\w+(?: \+ 1)?|\w+:)(?:, :)*\]\.\w+\([^()]*\)$|"
        r"torch\.\w+\([\w.]+\[(?:(?:\.\.\.|:), )*(?::\w+(?: \+ 1)?|\w+:)(?:, :)*\]",
        within=r"for (\w+) in range\([^\n]*:\n[\s\S]*\w\[(?:(?:\.\.\.|:), )*(?::\1(?: \+ 1)?|\1:)"
        r"(?:, :)*\]|\w\[(?:(?:\.\.\.|:), )*(?::(\w+)(?: \+ 1)?|(\w+):)(?:, :)*\][^\n]* for "
        r"(?:\2|\3) in range\(",
        where="step evaluation",
    ),
    SlowCall(
        "matrix-by-entries",
        "a small matrix is filled entry by entry, each a copy of its own, and backward copies all "
        "of it for each",
        "stack the entries, and shape the result: torch.stack([...], -1).unflatten(-1, (3, 3))",
        sources.ENTRIES,
        "*.__setitem__",
        frames=_TORCH,
        given=r"\[(?:(?:\.\.\.|:), )+\d, \d\]$",
        within=r"\b(\w+)\[((?:(?:\.\.\.|:), )+)0, 0\] = [\s\S]*\b\1\[\2[01], [012]\] = [\s\S]*"
        r"\b\1\[\2[12], [012]\] = ",
        where="step evaluation",
        least=0.2,
    ),
    SlowCall(
        "largest-with-index",
        "{call} also looks for the index of the largest number, which is not used",
        "take {it}.amax(dim), which looks for the number alone (in training its backward is "
        "slower)",
        sources.AMAX,
        "torch.max *.max torch.min *.min *.__getitem__",
        native=True,
        given=r"\.(max|min)\([^\n]*(\b|-)\d",
        within=r"(?:torch\.(?:max|min)\([^\n()]*, |\w\.(?:max|min)\()(?:dim=)?-?\d"
        r"(?:, (?:keepdim=)?True)?\)(?:\[0\]|\.values)",
        where="evaluation",
    ),
    SlowCall(
        "weight-standardised-by-hand",
        "mean and deviation of the filters are computed by operators of their own, each of which "
        "goes through the weight, forward and backward",
        "make the filters channels of a batch of one, and normalise that: "
        "F.batch_norm(w.view(1, len(w), -1), None, None, training=True, momentum=0.0).view_as(w)",
        sources.STANDARDISED,
        "*.mean *.std *.var *.view *.expand_as *.__op__ torch.mean torch.std torch.var "
        "torch.var_mean torch.sqrt",
        frames=_TORCH,
        within=r"= self\.weight\n[\s\S]*\.mean\((?:dim=)?[\[(]?1\b[\s\S]*\.(?:std|var)\([\s\S]*"
        r"conv[123]d\(|self\.weight\.mean\((?:dim=)?[\[(]1, 2[\s\S]*self\.weight\.(?:std|var)\("
        r"(?:dim=)?[\[(]1, 2[\s\S]*conv[123]d\(",
        where="step evaluation",
    ),
    SlowCall(
        "space-to-depth-by-slices",
        "every second pixel is cut out four times, and joined, before a convolution",
        "one convolution with a kernel twice as large and a stride of 2 on the image is the same: "
        "nn.Conv2d(channels, width, 6, 2, 2) for one of 3 x 3",
        sources.SPACE_TO_DEPTH,
        "torch.cat torch.concat *.__getitem__",
        frames=_TORCH,
        within=r"cat\([\[(](\w+)\[[^\]\n]*::2, ::2\], \1\[[^\]\n]*1::2[^\]\n]*\], \1\[[^\]\n]*1::2",
        where="step evaluation",
    ),
    SlowCall(
        "norm-by-hand",
        "square, sum and root each go through the tensor, and backward keeps one for each",
        "use torch.linalg.vector_norm(x, dim=-1), which is one operator, with a gradient of zero "
        "at zero",
        sources.VECTOR_NORM,
        "torch.sqrt *.sqrt",
        frames=_TORCH,
        given=r"^torch\.sqrt\(torch\.sum\([^\n]*(?:\*\* 2|pow\([^()]*2\)|square\([^()]*\))\)?"
        r"(?:, [^()]*)?\)\)$|^torch\.sqrt\([^\n]*(?: \*\* 2|\.pow\(2\)|\.square\(\))\)?"
        r"\.sum\([^()]*\)\)$|(?: \*\* 2|\.pow\(2\)|\.square\(\))\)?\.sum\([^()]*\)\.sqrt\(\)$",
        without=r"\) \+ |None|unsqueeze",
        where="step evaluation",
    ),
    SlowCall(
        "weights-indexed",
        "rows of a table of weights are taken by an index, whose backward adds up gradients place "
        "by place",
        "call the layer itself, or F.embedding(indices, weight): the same rows, and a backward "
        "that adds whole rows",
        sources.GATHER,
        "*.__getitem__",
        frames=_TORCH,
        given=r"emb\w*\.weight\[(?![ijkn]\])[A-Za-z_]\w*\]$",
        where="step",
    ),
    SlowCall(
        "patches-by-convolution",
        "patches that are already cut out are multiplied by a convolution, whose kernel is as "
        "large as a patch",
        "multiply them by a matrix: F.linear(patches.flatten(1), conv.weight.flatten(1), "
        "conv.bias), or keep an nn.Linear from the start",
        sources.PATCHES,
        "*",
        frames=r"^$|^torch/nn/modules/(module|conv)\.py",
        given=r"^self\.\w+\(",
        within=r"\b(\w+) = \w+\.(?:view|reshape)\(-1(?:, [^,()\n]+){3,4}\)\n[\s\S]*self\.\w+\(\1"
        r"(?:\.to\([^()]*\))?\)\.(?:view\(-1, [\w.]+|reshape\(-1, [\w.]+|flatten\(1)\)",
        where="step evaluation",
    ),
    SlowCall(
        "one-hot-into-layer",
        "indices are made one-hot for a layer, which multiplies its weight by mostly zeros",
        "use nn.Embedding, or F.embedding(indices, layer.weight.t()) + layer.bias, which look the "
        "rows up",
        sources.ONE_HOT_LAYER,
        "*",
        frames=_TORCH,
        given=r"^self\.(?!\w*(?:loss|crit|metric))\w+\((?:\w+|[^\n]*one_hot\([^\n]*\)[^\n,]*)\)$",
        within=r"self\.(?!\w*(?:loss|crit|metric))\w+\((?:F\.|torch\.nn\.functional\.|nn\."
        r"functional\.)?one_hot\((?:[^()]|\([^()]*\))*\)(?:\.\w+\([^()]*\))*\)|\b(\w+) = (?:F\.|"
        r"torch\.nn\.functional\.|nn\.functional\.)?one_hot\([^\n]*\n[\s\S]*self\.(?!\w*(?:loss|"
        r"crit|metric))\w+\(\1\)",
        where="step evaluation",
    ),
    SlowCall(
        "kernel-by-powers",
        "a matrix is raised to each power from the start, to multiply by it",
        "multiply what the last power gave by the matrix once more (v = a @ v), or double the "
        "number of powers with each product; of a diagonal matrix by "
        "torch.exp(torch.arange(n)[:, None] * a.log())",
        sources.CHAINS_OF_PRODUCTS,
        "torch.linalg.matrix_power torch.matrix_power *.matrix_power",
        frames=_TORCH,
        in_loop=True,
        within=r"matrix_power\([\w.]+, (\w+)\)[^\n]* for \1 in |for (\w+) in [^\n]*:\n[\s\S]*"
        r"matrix_power\([\w.]+, \2\)",
        where="step evaluation",
    ),
    SlowCall(
        "keys-repeated-for-groups",
        "{call} copies keys or values for each head that shares them",
        "leave them as they are, and pass enable_gqa=True to scaled_dot_product_attention, which "
        "takes fewer heads of keys than of queries",
        sources.HEADS_AT_ONCE,
        "*.repeat_interleave torch.repeat_interleave",
        frames=_TORCH,
        waits=True,
        given=r"repeat_interleave\([^\n]*(?:1|-3)\)$",
        within=r"\b(\w+) = (?:\1\.repeat_interleave\(|torch\.repeat_interleave\(\1, )[^\n]*\n["
        r"\s\S]*scaled_dot_product_attention\((?![^\n]*enable_gqa)[^\n]*\b\1\b",
        where="step evaluation",
    ),
    SlowCall(
        "head-for-last-position",
        "{call} is applied at every position, and the last one's result alone is used",
        "take that position first: {call}({x}[:, -1])",
        sources.LAST_TOKEN,
        "*",
        frames=_TORCH,
        given=r"^self\.(?:\w*head|fc|fc_out|classifier|linear|out|output|decoder|to_logits|lm_head"
        r"|generator)\(\w+\)$",
        within=r"\bself\.(?:\w*head|fc|fc_out|classifier|linear|out|output|decoder|to_logits|lm_he"
        r"ad|generator)\(\w+\)\[:, -1(?:, :)?\]|\b(\w+) = self\.(?:\w*head|fc|fc_out|classi"
        r"fier|linear|out|output|decoder|to_logits|lm_head|generator)\(\w+\)\n(?=[\s\S]*"
        r"\b\1\[:, -1\b)(?![\s\S]*\b\1\b(?!\[:, -1\b))",
        where="step evaluation",
    ),
    SlowCall(
        "head-before-mask",
        "{call} is applied at every position, and its results at those of a mask alone are used",
        "take these positions first: {call}({x}[mask]), which for masked tokens is a few of them",
        sources.MASKED_ONLY,
        "*",
        frames=_TORCH,
        given=r"^self\.(?:\w*head|fc|fc_out|classifier|linear|out|output|decoder|to_logits|lm_head"
        r"|generator)\(\w+\)$",
        within=r"\bself\.(?:\w*head|fc|fc_out|classifier|linear|out|output|decoder|to_logits|lm_he"
        r"ad|generator)\(\w+\)\[\w*mask\w*\]|\b(\w+) = self\.(?:\w*head|fc|fc_out|classifie"
        r"r|linear|out|output|decoder|to_logits|lm_head|generator)\(\w+\)\n(?=[\s\S]*"
        r"\b\1\[\w*mask\w*\])(?![\s\S]*\b\1\b(?!\[\w*mask\w*\]))",
        where="step evaluation",
    ),
    SlowCall(
        "logits-of-prompt",
        "{call} computes logits for all of the prompt too, which are cut away",
        "pass logits_to_keep=n + 1 for the last n tokens, so that the last layer is applied to "
        "these alone",
        sources.PROMPT_LOGITS,
        "*",
        frames=r"transformers/|^$|^torch/",
        given=r"^[\w.]*model\w*\(",
        within=r"\A(?![\s\S]*logits_to_keep)[\s\S]*\.logits\b[\s\S]*\[:, (?:-\w*(?:completion|resp"
        r"onse)\w*(?: - 1)?|\w*prompt\w*(?: - 1)?):",
        where="step evaluation",
    ),
    SlowCall(
        "loss-of-upcast-logits",
        "the loss makes a float32 copy of all logits, and one more of their gradients",
        "compute it for chunks of the tokens, so that one chunk at a time is made float32, or "
        "with a fused loss that takes the last layer's weight and makes no logits",
        sources.CHUNKED_LOSS,
        "torch.nn.functional.cross_entropy",
        frames=_TORCH,
        waits=True,
        given=r"cross_entropy\([^\n]*logits[^\n]*\.float\(\)",
        where="step",
    ),
    SlowCall(
        "rms-norm-by-hand",
        "the root mean square of the last dimension is computed by operators of its own, each of "
        "which goes through the tensor",
        "use F.rms_norm(x, (x.size(-1),), weight, eps) or nn.RMSNorm, or torch.compile the module",
        sources.RMS_NORM,
        "torch.rsqrt *.rsqrt *.pow *.mean torch.mean *.__op__ *.square",
        frames=_TORCH,
        waits=True,
        given=r"rsqrt\(|\.mean\(|mean\(",
        within=r"rsqrt\((?:torch\.mean\()?\(?(\w+)(?:\.pow\(2\)| \*\* 2|\.square\(\)| \* \1)\)?(?:"
        r"\.mean\((?:dim=)?|, (?:dim=)?)-1, (?:keepdim=)?True\) \+ [\w.]+\)|\b(\w+) = (\w+)"
        r"\.pow\(2\)\.mean\((?:dim=)?-1, keepdim=True\)\n\s+\w+ = \3 \* torch\.rsqrt\(\2 "
        r"\+ ",
        where="step evaluation",
    ),
    SlowCall(
        "group-norm-by-hand",
        "mean and deviation of groups of channels are computed by operators of their own",
        "use F.group_norm(x, groups, weight, bias, eps) or nn.GroupNorm, which is one operator",
        sources.FUNCTIONS,
        "*.mean *.var *.std torch.mean torch.var torch.std *.__op__",
        frames=_TORCH,
        given=r"\.(mean|var|std)\(| / | - ",
        within=r"\b(\w+) = \w+\.(?:view|reshape)\([^\n]*(?:groups?\b|\bG\b)[^\n]*\)\n(?=[\s\S]*\b("
        r"\w+) = \1\.mean\()(?=[\s\S]*\b\1\.(?:var|std)\()[\s\S]*\(\1 - ",
        where="step evaluation",
    ),
    SlowCall(
        "batch-norm-by-hand",
        "mean and variance of each channel are computed by operators of their own, each of which "
        "goes through the batch",
        "use F.batch_norm(x, running_mean, running_var, weight, bias, training=True) or "
        "nn.BatchNorm2d, which is one operator",
        sources.FUNCTIONS,
        "*.mean *.var *.std torch.mean torch.var torch.std *.__op__",
        frames=_TORCH,
        given=r"mean\(|var\(|std\(| / | - ",
        within=r"\b(\w+) = (\w+)\.mean\((?:dim=)?[\[(]0, 2(?:, 3)?[\])][^\n]*\n(?=[\s\S]*(?:"
        r"\b\2\.(?:var|std)\((?:dim=)?[\[(]0, 2|\(\2 - \1\)(?: \*\* 2|\.pow\(2\))\)?\.mean"
        r"\((?:dim=)?[\[(]0, 2))[\s\S]*\(\2 - \1\)\)? / ",
        where="step evaluation",
    ),
    SlowCall(
        "dropout-by-hand",
        "a mask of dropout is drawn, compared and multiplied by operators of their own",
        "use F.dropout(x, p, self.training), which draws and applies it in one",
        sources.FUNCTIONS,
        "torch.rand torch.rand_like *.__op__ *.float",
        frames=_TORCH,
        given=r"rand|/ \(1(\.0)? - ",
        within=r"\b(\w+) = \(?torch\.rand(?:_like)?\((\w+)(?:\.shape|\.size\(\))?(?:, [^\n]*)?\) ("
        r"?:<|>|>=|<=) [^\n]*\n[^\n]*(?:\b\1 \* \2\b|\b\2 \* \1\b)[^\n]* / \(1(?:\.0)? - ",
        where="step",
    ),
    SlowCall(
        "quantised-by-hand",
        "scaling, rounding, clamping and scaling back each go through the tensor, and keep one "
        "for backward",
        "use torch.fake_quantize_per_tensor_affine(x, scale, zero_point, quant_min, quant_max), "
        "or the one per channel, which is one operator with the same straight-through gradient, "
        "where the scale is not learned",
        sources.FAKE_QUANTIZE,
        "torch.round *.round torch.clamp *.clamp *.__op__ *.detach",
        frames=_TORCH,
        waits=True,
        given=r"round\(|clamp\(|detach\(",
        within=r"\A(?=[\s\S]*\.detach\(\))(?=[\s\S]*clamp\()[\s\S]*round\(\(?\w+ / \(?([\w.]+)\)?["
        r"\s\S]{0,160} \* \1\b",
        where="step evaluation",
    ),
    SlowCall(
        "states-of-all-positions",
        "linear attention keeps the sum of k v^T of every position, d x d numbers for each",
        "compute in chunks: scores = (q @ k.transpose(-1, -2)).tril() and scores @ v within a "
        "chunk, plus q @ state with the sum of the chunks before; for short sequences all is one "
        "chunk",
        sources.CUMSUM,
        "torch.cumsum *.cumsum torch.einsum",
        frames=_TORCH,
        within=r"einsum\('(\w*)(\w), ?\1(\w) ?-> ?\1\2\3'[^\n]*\)\.cumsum\(|cumsum\((torch\.)?"
        r"einsum\('(\w*)(\w), ?\5(\w) ?-> ?\5\6\7'|\.unsqueeze\(-1\) \* \w+\.unsqueeze\(-2\)\)\."
        r"cumsum\(|\[\.\.\., None\] \* \w+\[\.\.\., None, :\]\)\.cumsum\(",
        where="step evaluation",
    ),
    SlowCall(
        "layer-after-gather",
        "{call} multiplies the features of a node anew for each of its edges",
        "multiply each node once, then gather: {call}(x)[index] gives the same rows",
        sources.MESSAGES,
        "*",
        frames=_TORCH,
        given=r"^self\.\w+\(\w+(\.index_select\(0, |\[)(\w*(src|dst|source|target|send|recei|nbr|"
        r"neigh|edge)\w*|row|col)(\[[01]\])?[\])]\)$",
        where="step evaluation",
    ),
    SlowCall(
        "cumsum-by-triangle",
        "running sums are computed as a product with a triangle of ones, which adds up each of "
        "them anew",
        "use torch.cumsum(x, dim), divided by torch.arange(1, n + 1) for running means",
        sources.CUMSUM,
        "torch.matmul torch.mm torch.bmm *.__op__ *.matmul",
        frames=_TORCH,
        given=r"@|matmul\(|mm\(",
        within=r"\b(\w+) = torch\.tril\(torch\.ones\([^\n]*\)\)\n(?![\s\S]*(?:masked_fill|softmax|"
        r"where))[\s\S]*(?:\b\1 @ |mm\(\1, |matmul\(\1, )|torch\.tril\(torch\.ones\([^\n]*"
        r"\)\) @ ",
        where="step evaluation",
    ),
    SlowCall(
        "enlarged-by-repeats",
        "an image is enlarged by one repetition after the other, each a copy of its own",
        "use F.interpolate(x, scale_factor=2, mode='nearest'), which writes the result once",
        sources.FUNCTIONS,
        "*.repeat_interleave",
        frames=_TORCH,
        given=r"repeat_interleave\((\w|[\w.]+), (dim=)?(2|-2|3|-1)\)\.repeat_interleave\((\w|[\w.]"
        r"+), (dim=)?(3|-1|2|-2)\)",
        where="step evaluation",
    ),
    SlowCall(
        "enlarged-by-cubics",
        "{call} with this mode adds each pixel's gradient to many others, and is slowest for "
        "large factors",
        "compute losses at the low resolution, with targets made smaller once, enlarge by 2 at a "
        "time, or use mode='nearest' or 'bilinear'; keep what is made of a constant tensor",
        sources.INTERPOLATED,
        "torch.nn.functional.interpolate",
        frames=r"^$|torch/nn/functional\.py",
        given=r"mode='(trilinear|bicubic)'",
        operators="aten::upsample_trilinear3d_backward aten::upsample_bicubic2d_backward "
        "UpsampleTrilinear3DBackward0 UpsampleBicubic2DBackward0",
        where="step",
    ),
    SlowCall(
        "transmittance-by-product",
        "backward of {call} first asks whether any factor is zero, and the host waits for the "
        "answer",
        "multiply by adding exponents: torch.exp(-torch.cumsum(density * distance, -1)), shifted "
        "by one, is the same product",
        sources.TRANSMITTANCE,
        "torch.cumprod *.cumprod",
        native=True,
        waits=True,
        given=r"cumprod\([^\n]*1(\.0)? - \w*alpha",
        where="step",
    ),
    SlowCall(
        "padded-by-reflection",
        "padding by reflection adds up the gradients of the border pixel by pixel",
        "pad the input once in place of features before each convolution, or let the "
        "convolutions pad with zeros (padding=1)",
        sources.REFLECTION,
        operators="aten::reflection_pad1d_backward aten::reflection_pad2d_backward "
        "aten::reflection_pad3d_backward ReflectionPad1DBackward0 "
        "ReflectionPad2DBackward0 ReflectionPad3DBackward0",
        where="step",
    ),
    SlowCall(
        "depthwise-in-3d",
        "a depthwise convolution of three dimensions is slower than a dense one, most of all "
        "backward",
        "cut its kernel into one for planes and one for depth, nn.Conv3d(c, c, (1, 3, 3), "
        "groups=c) and (3, 1, 1), or use fewer groups",
        sources.DEPTHWISE_3D,
        "torch.nn.functional.conv3d",
        frames=_TORCH,
        given=r"groups=(?!1\b)",
        operators="aten::conv_depthwise3d ConvDepthwise3DBackward0",
        where="step evaluation",
    ),
    SlowCall(
        "pose-inverted",
        "{call} decomposes each small matrix, though the inverse of a motion is known",
        "of a rotation r and a shift t it is r.mT and -r.mT @ t; write a camera's 3 x 3 out, or "
        "invert it once",
        sources.SMALL_INVERSES,
        "torch.inverse torch.linalg.inv *.inverse",
        frames=_TORCH,
        given=r"(?i)inv(erse)?\([\w.]*(pose|extrinsic|c2w|w2c|cam2world|world2cam|rigid)\w*(\[[^"
        r"\]]*\])?\)|(pose|extrinsic|c2w|w2c|cam2world|world2cam)\w*\.inverse\(\)",
        where="step evaluation",
    ),
    SlowCall(
        "queue-shifted",
        "{call} copies the whole queue to add a few rows to it",
        "write the new rows over the oldest ones: self.queue[at:at + n] = new; at = (at + n) % "
        "len(self.queue)",
        sources.RING,
        "torch.cat torch.concat torch.roll",
        native=True,
        grown=True,
        where="step",
        given=r"cat\([\[(]self\.\w*(queue|bank|memory|buffer|history)\w*\[(:, )?[^\]:]*[^\]: ,]:"
        r"\], |cat\([\[(][^\n]*, self\.\w*(queue|bank|memory|buffer|history)\w*\[(:, )?:-|ro"
        r"ll\(self\.\w*(queue|bank|memory|buffer|history)",
    ),
    SlowCall(
        "accumulated-by-index",
        "{call} with accumulate=True adds rows up one after another; on a GPU it sorts the "
        "indices first",
        "use {it}.index_add_(0, indices, values), or scatter_add_, which add in parallel",
        sources.ACCUMULATED,
        "*.index_put_ *.index_put torch.index_put",
        native=True,
        given=r"accumulate=True|, True\)$",
        where="step evaluation",
    ),
    SlowCall(
        "window-mask-made-each-time",
        "the mask of shifted windows is built anew for each call, though it depends on the size "
        "alone",
        "build it once in __init__ (register_buffer), or keep one for each size in a dict",
        sources.WINDOW_MASK,
        "*",
        frames=_TORCH,
        within=r"\A(?:@.*\n)*def (?!__init__)\w+\([\s\S]*\bfor (\w+) in \w*slices?\w*:\n\s+for ("
        r"\w+) in \w*slices?\w*:\n\s+\w*mask\w*\[[^\]\n]*\1, \2[^\]\n]*\] = ",
        where="step evaluation",
    ),
    SlowCall(
        "alibi-made-each-time",
        "the biases by distance are computed anew for each call, though they depend on the "
        "length alone",
        "compute them once for the longest sequence (register_buffer, persistent=False), and slice",
        sources.ALIBI,
        "*",
        frames=_TORCH,
        given=r"^(torch\.(arange|tensor|Tensor|pow|cat|linspace)\(|\(?(self\.)?\w*slopes?\b(\[[^"
        r"\]]*\]|\.\w+\([^()]*\))* \* )",
        within=r"(?i)\A(?:@.*\n)*def (?:\w*alibi\w*\([\s\S]*arange\(|forward\([\s\S]*\bslopes?\b[^"
        r"\n]* \* [^\n]*(?:arange|dist|pos))",
        where="step evaluation",
    ),
    SlowCall(
        "buckets-made-each-time",
        "the buckets of relative positions are computed anew for each call, though they depend "
        "on the length alone",
        "compute them once for the longest sequence (register_buffer), look the bias up once for "
        "each step, and hand it on to all layers",
        sources.BUCKETS,
        "*",
        frames=_TORCH,
        within=r"\A(?:@.*\n)*def \w*relative\w*bucket\w*\([\s\S]*\blog\(",
        where="step evaluation",
    ),
    SlowCall(
        "permuted-for-norm",
        "channels are brought to the end for the norm, so that it reads scattered numbers or a "
        "copy",
        "call model.to(memory_format=torch.channels_last), and give it inputs of that format: "
        "permuting is then a view, and the norm reads rows as they lie",
        sources.NORM_LAYOUT,
        "*",
        frames=_TORCH,
        given=r"(?i)norm\w*\(\w+\.permute\(0, 2, 3, 1\)[,)]",
        where="step evaluation",
    ),
    SlowCall(
        "probes-one-by-one",
        "backward runs once for each random vector",
        "draw all of them at once, and call it once: torch.autograd.grad(y, x, torch.randn(n, "
        "*y.shape), is_grads_batched=True)",
        sources.GRADS_BATCHED,
        "torch.autograd.grad",
        frames=_TORCH,
        in_loop=True,
        without=r"is_grads_batched",
        within=r"for \w+ in range\([^\n]*:\n\s+(\w+) = [^\n]*(?:randn|randint|rademacher|bernoulli"
        r")[^\n]*\n(?:[^\n]*\n)?[^\n]*autograd\.grad\([^\n]*\b\1\b",
        where="step evaluation",
    ),
    SlowCall(
        "gradients-by-loss",
        "backward runs once for each loss, through all that they share",
        "call it once for all: torch.autograd.grad(torch.stack(losses), weights, torch.eye(n), "
        "is_grads_batched=True), with the eye on the device of the losses",
        sources.GRADS_BATCHED,
        "torch.autograd.grad",
        frames=_TORCH,
        in_loop=True,
        without=r"is_grads_batched",
        within=r"for (\w+) in \w*loss\w*:\n[\s\S]*autograd\.grad\(\1, |for (\w+), (\w+) in enumera"
        r"te\(\w*loss\w*\):\n[\s\S]*autograd\.grad\(\3, |autograd\.grad\((\w+), [^\n]* for "
        r"\4 in \w*loss\w*\]",
        where="step",
    ),
    SlowCall(
        "losses-backward-apart",
        "{call} runs once for each loss, through all that they share",
        "add the losses, and call backward once, which gives the same gradients",
        sources.JOINT_BACKWARD,
        "*.backward torch.Tensor.backward",
        frames=_TORCH,
        given=r"^\w+\.backward\(",
        within=r"\b(\w+)\.backward\(retain_graph=True\)\n(?:(?![^\n]*(?:zero_grad|\.step\(|\.grad"
        r"\b|retain_graph|with |if |for ))[^\n]*\n){0,3}\s*(?!\1\b)\w*(?:loss|err)\w*\.back"
        r"ward\(\)",
        where="step",
    ),
    SlowCall(
        "generator-in-critic-step",
        "backward of the critic's loss goes on through the generator, whose gradients are not used",
        "give the critic what the generator made without its graph: D(fake.detach()), or make it "
        "under torch.no_grad()",
        sources.DETACHED,
        "*.backward torch.Tensor.backward",
        frames=_TORCH,
        given=r"(?i)^\w*(loss_?d|d_?loss|err_?d|disc(riminator)?_?loss|critic_?loss)\w*\.backward"
        r"\(",
        within=r"\A(?![\s\S]*(?:no_grad|detach\())[\s\S]*\b(\w*[fF]ake\w*) = (?:self\.)?(?:\w*[nN]"
        r"et_?G|\w*[gG]enerator|G|gen)\([^\n]*\)\n[\s\S]*\b(?:\w*[nN]et_?D|\w*[dD]iscrimina"
        r"tor|\w*[cC]ritic|D|disc)\(\1\)",
        where="step",
    ),
    SlowCall(
        "chamfer-by-pairs",
        "the distances of all pairs of points are kept for backward, of which the nearest alone "
        "has a gradient",
        "look for the nearest under torch.no_grad(), in chunks, or with "
        "pytorch3d.ops.knn_points(a, b), and compute the distances to those gathered by its "
        "indices",
        sources.CHAMFER,
        "*",
        frames=_TORCH,
        given=r"cdist|bmm|matmul|expand|unsqueeze| - | @ |None",
        within=r"(?i)\A(?![\s\S]*(?:no_grad|knn|gather))(?:@.*\n)*def \w*chamfer\w*\(",
        where="step",
    ),
    SlowCall(
        "softmax-before-argmax",
        "a softmax is taken before the largest is looked for, which it does not change",
        "take the argmax of the logits",
        sources.ARGMAX,
        "torch.argmax *.argmax torch.softmax torch.nn.functional.softmax *.softmax",
        frames=_TORCH,
        given=r"softmax\([^()]*(\([^()]*\))?[^()]*\)\.argmax\(|argmax\((F\.|torch\.|nn\.functional"
        r"\.|torch\.nn\.functional\.)?(log_)?softmax\(",
        where="step evaluation",
    ),
    SlowCall(
        "softplus-by-hand",
        "the exponential, the sum and the logarithm each go through the tensor, and overflow for "
        "large numbers",
        "use F.softplus(x), which is one operator",
        sources.FUNCTIONS,
        "torch.log torch.log1p *.log *.log1p",
        frames=_TORCH,
        given=r"log\(1(\.0)? \+ (torch\.exp\([^()\[\]]*\)|[\w.]+\.exp\(\))\)|log1p\((torch\.exp\(["
        r"^()\[\]]*\)|[\w.]+\.exp\(\))\)|\(1(\.0)? \+ torch\.exp\([^()\[\]]*\)\)\.log\(",
        within=r"\A(?![\s\S]*(?:\[:, None|unsqueeze\())",
        where="step evaluation",
    ),
    SlowCall(
        "logarithm-of-sigmoid",
        "the logarithm of a sigmoid is taken by two operators, with a tensor more for backward",
        "use F.logsigmoid(x), which is one, and needs no small number added",
        sources.FUNCTIONS,
        "torch.log *.log torch.sigmoid *.sigmoid",
        frames=_TORCH,
        given=r"log\((torch\.|F\.|torch\.nn\.functional\.)?sigmoid\([^()]*(\([^()]*\)[^()]*)*\)( "
        r"\+ [\w.-]+)?\)|log\([\w.]+\.sigmoid\(\)|sigmoid\([^()]*\)\.log\(",
        without=r"log\(1",
        where="step evaluation",
    ),
    SlowCall(
        "hard-swish-by-hand",
        "clamping, adding, dividing and multiplying each go through the tensor",
        "use F.hardswish(x), or F.hardsigmoid(x) for its gate alone: one operator, a tenth of "
        "the time",
        sources.FUNCTIONS,
        "*.__op__ torch.nn.functional.relu6 *.relu6 *.relu",
        frames=_TORCH,
        given=r"relu6?\((\w+) \+ 3(\.0)?\) / 6(\.0)?|(\w+) \* F\.relu6\(\4 \+ 3",
        where="step evaluation",
    ),
    SlowCall(
        "relu-by-mask",
        "a mask or a tensor of zeros is made to cut off negative numbers",
        "use torch.relu(x), which keeps nothing but its result",
        sources.FUNCTIONS,
        "torch.max torch.maximum torch.where *.__op__",
        frames=_TORCH,
        given=r"torch\.(?:max|maximum)\((\w+), torch\.zeros_like\(\1\)\)|\b(\w+) \* \(\2 > 0\)(?!"
        r"\.sum|\.any)|torch\.where\((\w+) > 0(?:\.0)?, \3, (?:0(?:\.0)?|torch\.zeros_like"
        r"\(\3\))\)",
        where="step evaluation",
    ),
    SlowCall(
        "activation-by-where",
        "both branches of the activation are computed at each number, and one is chosen",
        "use F.leaky_relu(x, slope), F.prelu(x, weight) for a learned slope, or F.elu(x): one "
        "operator",
        sources.FUNCTIONS,
        "torch.where",
        frames=_TORCH,
        given=r"torch\.where\((\w+) >=? 0(?:\.0)?, \1, (?:[\w.]+ \* \1|(?:[\w.]+ \* )?\(?torch\.ex"
        r"p\(\1\) - 1(?:\.0)?\)?)\)",
        where="step evaluation",
    ),
    SlowCall(
        "prelu-by-two",
        "two activations are computed, of the numbers and of their negatives",
        "use F.prelu(x, weight), or F.leaky_relu(x, slope) for a fixed slope: one operator",
        sources.FUNCTIONS,
        "*.__op__ torch.relu torch.nn.functional.relu",
        frames=_TORCH,
        given=r"relu\((\w+)\) - [\w.]+ \* (?:F|torch)\.relu\(-\1\)",
        where="step evaluation",
    ),
    SlowCall(
        "gate-by-chunk",
        "the halves of the channels are cut, and gate and product computed by operators of their "
        "own",
        "use F.glu(x, dim), which reads both halves once",
        sources.FUNCTIONS,
        "*.__op__ torch.sigmoid *.sigmoid",
        frames=_TORCH,
        given=r"sigmoid",
        within=r"\b(\w+), (\w+) = (?:torch\.chunk\(\w+, 2|[\w.]+(?:\([^\n]*\))?\.chunk\(2)[^\n]*"
        r"\n[\s\S]{0,160}(?:\b\1 \* torch\.sigmoid\(\2\)|torch\.sigmoid\(\2\) \* \1\b|\b\1 "
        r"\* \2\.sigmoid\(\))",
        where="step evaluation",
    ),
    SlowCall(
        "softmax-by-hand",
        "the exponentials, their sum and the quotient each go through the tensor, and overflow "
        "for large numbers",
        "use F.softmax(x, dim), which is one operator",
        sources.FUNCTIONS,
        "torch.exp *.exp *.__op__ *.sum torch.sum",
        frames=_TORCH,
        given=r"exp\(| / |sum\(",
        within=r"torch\.exp\(([^()\n]*)\) / (?:torch\.exp\(\1\)\.sum\(|torch\.sum\(torch\.exp"
        r"\(\1\), )|\b(\w+) = torch\.exp\([^\n]*\)\n\s*(?:return |\w+ = )\2 / (?:\2\.sum\(|"
        r"torch\.sum\(\2, )[^\n]*keepdims?=True|\b(\w+) = torch\.exp\([^\n]*\)\n\s*(\w+) = "
        r"\3\.sum\([^\n]*keepdims?=True\)\n\s*(?:return |\w+ = )\3 / \4\b",
        where="step evaluation",
    ),
    SlowCall(
        "pooled-by-reshape",
        "means of blocks are taken along dimensions that do not lie together",
        "use F.avg_pool2d(x, 2), or F.max_pool2d for the largest, which read each row once",
        sources.POOLING,
        "*.mean *.amax",
        frames=_TORCH,
        given=r"(?:view|reshape)\([^\n]*// (\d|[\w.]+), \1, [^\n]*// \1, \1\)\.(?:mean|amax)\((?:d"
        r"im=)?[\[(](?:3, 5|5, 3|-1, -3|-3, -1)",
        where="step evaluation",
    ),
    SlowCall(
        "taken-by-one-hot",
        "one number of each row is taken as the sum of a product with a one-hot matrix",
        "gather it: x.gather(-1, index.unsqueeze(-1)).squeeze(-1)",
        sources.GATHER,
        "*.sum torch.sum torch.nn.functional.one_hot *.__op__",
        frames=_TORCH,
        given=r"\(\w+ \* (?:F|torch\.nn\.functional)\.one_hot\([^\n]*\)\.sum\(|torch\.sum\(\w+ \* "
        r"(?:F|torch\.nn\.functional)\.one_hot\(",
        where="step evaluation",
    ),
    SlowCall(
        "clamped-by-two",
        "the tensor is cut off below and above by an operator each, which compare it with "
        "another tensor",
        "use {x}.clamp(low, high), with numbers or tensors: one operator",
        sources.FUNCTIONS,
        "torch.min torch.max torch.minimum torch.maximum",
        frames=_TORCH,
        given=r"torch\.(?:min|minimum)\(torch\.(?:max|maximum)\([\w.]+, [\w.]+\), [\w.]+\)|torch"
        r"\.(?:max|maximum)\(torch\.(?:min|minimum)\([\w.]+, [\w.]+\), [\w.]+\)",
        where="step evaluation",
    ),
    SlowCall(
        "blended-by-hand",
        "two tensors are mixed by four operators, each of which goes through one of them",
        "use torch.lerp(a, b, t) for (1 - t) * a + t * b: one operator",
        sources.FUNCTIONS,
        "*.__op__",
        frames=_TORCH,
        given=r"^\(1(?:\.0)? - ([\w.]+)\) \* [\w.]+ \+ \1 \* [\w.]+$",
        within=r"\A(?![\s\S]*(?:\.data\b|parameters\(|\.item\(\)|loss|sigmoid|\bfor ))",
        where="step",
    ),
    SlowCall(
        "sigmoid-by-exp",
        "negating, exponential, sum and quotient each go through the tensor",
        "use torch.sigmoid(x), which is one operator",
        sources.FUNCTIONS,
        "*.__op__ torch.exp *.exp",
        frames=_TORCH,
        given=r"1(?:\.0)? / \(1(?:\.0)? \+ (?:torch\.exp\(-|\(-\w+\)\.exp\(\))",
        where="step evaluation",
    ),
    SlowCall(
        "tanh-by-exp",
        "four exponentials, two sums and a quotient each go through the tensor",
        "use torch.tanh(x), which is one operator",
        sources.FUNCTIONS,
        "*.__op__ torch.exp",
        frames=_TORCH,
        given=r"\(torch\.exp\((\w+)\) - torch\.exp\(-\1\)\) / \(torch\.exp\(\1\) \+ torch\.exp\(-"
        r"\1\)\)",
        where="step evaluation",
    ),
)
