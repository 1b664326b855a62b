"""NumPy, SciPy and what computes on the CPU beside the model."""

from __future__ import annotations

from perftui.diagnosis.slow_calls import sources
from perftui.diagnosis.slow_calls.row import EACH, SlowCall

ROWS = (
    SlowCall(
        "bits-of-text",
        "the bits of a number are written as text, and read letter by letter",
        "np.unpackbits gives the bits of bytes, of a whole array at once: "
        "np.unpackbits(x.astype('>u4').view(np.uint8))",
        sources.BITS,
        "builtins.format builtins.bin builtins.int *.zfill numpy.binary_repr "
        "numpy.array numpy.array(list) *.__format__",
        frames=r"^$|^numpy/",
        where="item step evaluation",
        within=r"(\bint\((\w+)\)|(\w+) == .1.) for (\2|\3) in ([\w.]*\b(format|bin|binary_repr)"
        r"\(|list\([\w.]*(format|bin|binary_repr)\(|f\')",
    ),
    SlowCall(
        "thresholds-one-by-one",
        "all scores are compared with one threshold after another",
        "sort the scores once, and add the labels up in this order: cumsum gives the "
        "hits at every threshold, searchsorted those at given ones",
        sources.CURVES_AT_ONCE,
        "*.mean *.sum numpy.mean numpy.sum torch.sum torch.mean *.float *.astype *.int "
        "*.long numpy.logical_and torch.logical_and *.__eq__ *.__op__ "
        "numpy.count_nonzero",
        native=True,
        where="step evaluation",
        within=r"for (\w+) in ([\w.]*(linspace|arange)\(|[^\n]*(thres|cutoff))[^\n]*:\n[\s\S]*?"
        r"(>=?|<=?) \1\b",
        in_loop=True,
    ),
    SlowCall(
        "resampled-one-by-one",
        "{line} draws the samples of one bootstrap after another, and computes on each",
        "draw all at once: i = rng.integers(0, n, (times, n)), and take the mean over "
        "the last dimension of x[i]; scipy.stats.bootstrap does so in batches",
        sources.BOOTSTRAP,
        "*",
        frames=r"^",
        where="step evaluation",
        given=r"choice|randint|integers|resample|\w\[\w+\]",
        within=r"\A(?![\s\S]*(backward|__getitem__))[\s\S]*for \w+ in [\w.]*range\([^\n]*:\n\s+"
        r"(\w+) = [\w.]*(choice\((len\(\w+\)|\w+), (size=)?\4(, replace=True)?|randint\("
        r"0, (len\(\w+\)|\w+), (size=)?\(?\7|integers\(0, (len\(\w+\)|\w+), (size=)?\9|r"
        r"esample\()",
        in_loop=True,
    ),
    SlowCall(
        "ranked-one-by-one",
        "{call} ranks all items for one row after another",
        "rank all rows at once: torch.topk(scores, k, dim=1), and take hits by gather; "
        "means over rows follow",
        sources.RANKED_USERS,
        "numpy.argsort torch.argsort *.argsort numpy.argpartition torch.topk *.topk "
        "heapq.nlargest *.argpartition",
        frames=r"^$|^numpy/|^torch/",
        where="step evaluation",
        given=r"\(-?[\w.]+\[\w+\]|^[\w.]+\[\w+\]\.(topk|argsort|sort)|nlargest\(\w+, [\w.]+\["
        r"\w+\]",
        within=r"for (\w+)(, \w+)? in [^\n]*:\n[\s\S]*(argsort|topk|argpartition|nlargest)\([^"
        r"\n]*\[\1\]|for (\w+)(, \w+)? in [^\n]*:\n[\s\S]*\[\4\]\.(topk|argsort)",
        in_loop=True,
    ),
    SlowCall(
        "blocks-joined-in-batch",
        "{call} puts the matrices of all samples into one that is zero elsewhere",
        "keep each as its edges, with the numbers of nodes before it added, or "
        "scipy.sparse.block_diag; small ones padded, for torch.bmm",
        sources.BMM,
        "scipy.linalg.block_diag torch.block_diag",
        frames=r"^$|^scipy/|^torch/|^numpy/",
        where="item",
    ),
    SlowCall(
        "pair-looked-up",
        "each look-up in a DOK matrix goes through checks in Python",
        "keep a Python set of the pairs, made once, or of the numbers u * columns + i",
        sources.DOK,
        frames=r"(^|> )scipy/sparse/_?dok\.py",
        least=0.3,
    ),
    SlowCall(
        "filter-of-python",
        "{call} calls a Python function for each pixel or line",
        "make it of filters of whole arrays (uniform_filter of x and of x ** 2 gives a variance), "
        "or pass a function compiled by numba (scipy.LowLevelCallable)",
        sources.GENERIC_FILTER,
        "scipy.ndimage.generic_filter scipy.ndimage.generic_filter1d "
        "scipy.ndimage.labeled_comprehension",
        frames=r"^$|^scipy/ndimage/",
        least=0.2,
    ),
    SlowCall(
        "grid-made",
        "{call} makes coordinates anew for each item",
        "make them once in __init__, and keep them in self, if they do not depend on the item",
        sources.CACHED_SAMPLES,
        "numpy.meshgrid numpy.indices torch.meshgrid",
        frames=r"^$|^numpy/|^torch/functional\.py",
        where="item",
    ),
    SlowCall(
        "values-tested-per-item",
        "{call} looks at each value of each sample again in every epoch",
        "test and mend all samples once before training",
        sources.CACHED_SAMPLES,
        "numpy.isnan numpy.isinf numpy.isfinite numpy.nan_to_num torch.isnan torch.isfinite "
        "torch.nan_to_num",
        frames=r"^$|^numpy/",
        where="item",
        least=0.4,
    ),
    SlowCall(
        "matrix-of-ones-indexed",
        "{call} makes a whole square matrix, to take a few of its rows",
        "keep class numbers (cross_entropy takes them), or make the matrix once",
        sources.LABEL_COLOURS,
        "numpy.eye numpy.identity torch.eye",
        frames=r"^$|^numpy/",
        within=r"\b(eye|identity)\([^()]*(\([^()]*\)[^()]*)*\)\[",
        where=EACH,
    ),
    SlowCall(
        "colours-of-classes",
        "all colours of a label image are compared with those of one class after another",
        "store label images of class numbers once before training, or look all pixels up at once "
        "in a table made once: table[(x[..., 0] << 16) | (x[..., 1] << 8) | x[..., 2]], of an "
        "int32 array x",
        sources.LABEL_COLOURS,
        "*.all numpy.all numpy.array_equal *.__eq__ *.__setitem__ numpy.equal",
        frames=r"^$|^numpy/",
        within=r"(?i)for \w+(, \(?\w+)* ?[^\n]* in [^\n]*(colou?r|palette|cmap)[\s\S]*"
        r"(\.all\((axis=)?(-1|2)|np\.all\([^\n]*==)",
        in_loop=True,
        where=EACH,
    ),
    SlowCall(
        "windows-copied",
        "windows of a series are cut out and copied one by one, so that each value is kept as many "
        "times as a window is long",
        "make views: torch.from_numpy(series).unfold(0, length, 1), or "
        "np.lib.stride_tricks.sliding_window_view(series, length, axis=0); or cut each window "
        "in __getitem__",
        sources.WINDOWS,
        "*.append numpy.array(list) numpy.stack(list) torch.tensor(list) torch.stack(list) "
        "torch.FloatTensor(list) torch.Tensor(list)",
        frames=r"^$|^numpy/",
        within=r"\.append\([^\n]*\[(\w+):\1 \+ |\.append\([^\n]*\[(\w+) - [\w.]+:\2\b",
        where="start",
    ),
    SlowCall(
        "scaled-on-cpu",
        "each sample is scaled on the CPU by itself, and as floats it is larger than as bytes",
        "hand over what is stored (uint8), and scale the whole batch on the device: "
        "x.to(device, non_blocking=True).float() / 255, or (x - mean) / std",
        sources.SCALED,
        "*.__op__ *.div",
        frames=r"^$|^numpy/",
        given=r"(/|\.div\() ?(255|127\.5)\b|- (self\.)?\w*mean\w*\) / (self\.)?\w*(std|scale)\w*$",
        where="item",
        waits=True,
        least=0.5,
    ),
    SlowCall(
        "molecule-described",
        "{call} computes features of a molecule for each item",
        "compute them once before training and store arrays",
        sources.FINGERPRINTS,
        "rdkit.Chem.Descriptors.* rdkit.Chem.rdMolDescriptors.* "
        "rdkit.Chem.rdFingerprintGenerator.* rdkit.DataStructs.* ogb.utils.* "
        "torch_geometric.utils.from_smiles torch_geometric.utils.smiles.* dgllife.utils.* "
        "deepchem.feat.* *.GetFingerprint *.GetCountFingerprint *.featurize",
        frames=r"^$|^(rdkit|ogb|torch_geometric|dgllife|deepchem)/",
        where=EACH,
    ),
    SlowCall(
        "paths-searched",
        "{call} searches paths through the whole graph for each item",
        "do it once before training (pre_transform) and store the distances",
        sources.GRAPH_TRANSFORMS,
        "scipy.sparse.csgraph.*",
        frames=r"^$|^scipy/sparse/",
        where=EACH,
    ),
    SlowCall(
        "elements-scanned",
        "a condition is tested for all elements, one by one in Python, for each item",
        "make a dict from class (or key) to positions once in __init__",
        sources.OF_A_CLASS,
        "builtins.enumerate random.choice random.sample numpy.random.choice builtins.list "
        "numpy.array torch.tensor builtins.next",
        native=True,
        given=r"^enumerate\(self\.[\w.]+\)$| for [^\n]* in (enumerate\()?self\.[\w.]+\)? if ",
        within=r" for [^\n]* in (enumerate\()?self\.[\w.]+\)? if ",
        where="item",
        least=0.5,
    ),
    SlowCall(
        "list-made-per-item",
        "{call} copies all keys or elements into a list for each item",
        "make the list once in __init__ and index that",
        sources.BUFFER_COPY,
        "builtins.list builtins.tuple",
        native=True,
        given=r"^(list|tuple)\(self\.[\w.]+(\.(keys|values|items)\(\))?\)$",
        where="item",
        least=0.5,
    ),
    SlowCall(
        "kept-list-joined",
        "{call} joins all arrays of the list {x} again each time",
        "write them into one array made large enough, and index that",
        sources.APPENDING,
        "numpy.stack(list) numpy.concatenate(list) numpy.vstack(list) numpy.hstack(list)",
        frames=r"^$|^numpy/",
        given=r"\(self\.\w+[,)]",
        where=EACH,
        least=0.5,
    ),
    SlowCall(
        "array-scanned",
        "a condition on the whole array is evaluated for each item",
        "sort or group once in __init__ (np.argsort with np.searchsorted, or a dict from key to "
        "row numbers)",
        sources.GROUPED,
        "*.__getitem__ numpy.where numpy.nonzero numpy.flatnonzero numpy.argwhere numpy.isin "
        "torch.where torch.nonzero torch.isin *.nonzero",
        frames=r"^$|^numpy/",
        given=r"self\.\w+(\[[^\]]*\])? [=!]= |[=!]= self\.\w+(\[:[^\]]*\])?[\])]|\bisin\(self\.\w+",
        where="item",
        least=0.5,
    ),
    SlowCall(
        "statistics-per-item",
        "{call} goes through all samples for each item",
        "compute it once in __init__",
        sources.DATASET_STATISTICS,
        "*.mean *.std *.var *.min *.max *.sum *.median *.quantile numpy.mean numpy.std numpy.var "
        "numpy.min numpy.max numpy.sum numpy.median numpy.percentile numpy.quantile",
        frames=r"^$|^numpy/",
        given=r"^(self\.\w+\.\w+\(|(np|numpy)\.\w+\(self\.\w+[,)])",
        where="item",
    ),
    SlowCall(
        "copied-before-index",
        "all samples are copied or converted, to take a part of them",
        "index first and copy or convert what is taken, or convert once in __init__",
        sources.BUFFER_COPY,
        "*.__getitem__",
        native=True,
        given=r"^(self\.[\w.]+\.(copy|clone|astype|float|double|half|long|int|to)\([^()]*\)|"
        r"(np|numpy)\.array\(self\.[\w.]+\))\[[^\]]*[A-Za-z_]",
        where="item step",
    ),
    SlowCall(
        "buffer-copied",
        "{call} copies everything that is stored, to draw a few of it",
        "index the storage with the drawn numbers: an index by a list or array is a copy already",
        sources.BUFFER_COPY,
        "*.copy *.clone copy.copy",
        native=True,
        given=r"^(self\.)?\w+(\[\w+\]|\.\w+)?\[:self\.[\w.]+\]\.(copy|clone)\(\)$",
        where="item step",
    ),
    SlowCall(
        "permuted-for-few",
        "{call} permutes all indices for one batch",
        "permute once per epoch and slice it, or draw with rng.integers",
        sources.REPLACEMENT,
        "numpy.random.Generator.permutation numpy.random.Generator.shuffle",
        native=True,
        where="item step",
    ),
    SlowCall(
        "array-rolled",
        "{call} copies the whole buffer each time, to move it",
        "overwrite the oldest element (an index that wraps), or a collections.deque(maxlen=N)",
        sources.ROLLED,
        "numpy.roll torch.roll *.roll",
        frames=r"^$|^numpy/",
        grown=True,
        where="item step",
    ),
    SlowCall(
        "filter-designed",
        "{call} designs the same filter each time",
        "design it once in __init__ (output='sos') and keep its coefficients",
        sources.FILTER_DESIGN,
        "scipy.signal.butter scipy.signal.firwin scipy.signal.firwin2 scipy.signal.iirnotch "
        "scipy.signal.iirpeak scipy.signal.iirfilter scipy.signal.cheby1 scipy.signal.cheby2 "
        "scipy.signal.ellip scipy.signal.remez scipy.signal.get_window",
        frames=r"^scipy/signal/",
        where=EACH,
    ),
    SlowCall(
        "signal-filtered",
        "{call} filters the same recordings again in every epoch",
        "filter them once before training",
        sources.FILTER_DESIGN,
        "scipy.signal.sosfilt scipy.signal.sosfiltfilt scipy.signal.lfilter scipy.signal.hilbert "
        "scipy.signal.savgol_filter scipy.signal.detrend scipy.signal.find_peaks scipy.signal.cwt",
        frames=r"^scipy/",
        where="item",
    ),
    SlowCall(
        "wavelets-computed",
        "{call} transforms the same recordings again in every epoch",
        "compute the coefficients once before training",
        sources.SPECTROGRAMS,
        "pywt.* ptwt.* ssqueezepy.*",
        frames=r"^$|^(pywt|ptwt|ssqueezepy)/",
        where="item",
    ),
    SlowCall(
        "convolved-directly",
        "{call} multiplies each sample by each tap",
        "use scipy.signal.fftconvolve or oaconvolve, if both are long",
        sources.FFTCONVOLVE,
        "numpy.convolve numpy.correlate",
        frames=r"^$|^numpy/",
    ),
    SlowCall(
        "grid-interpolated",
        "{call} triangulates the points each time",
        "keep the scipy.spatial.Delaunay of the points, and its weights, where they stay the same",
        sources.GRIDDATA,
        "scipy.interpolate.griddata scipy.interpolate.LinearNDInterpolator "
        "scipy.interpolate.CloughTocher2DInterpolator",
        frames=r"^$|^scipy/interpolate/",
        where=EACH,
    ),
    SlowCall(
        "interpolation-made",
        "{call} builds an interpolation for each item",
        "use np.interp for straight lines, or resample everything once before training",
        sources.INTERPOLATION,
        "scipy.interpolate.interp1d scipy.interpolate.CubicSpline scipy.interpolate.splrep "
        "scipy.interpolate.UnivariateSpline scipy.interpolate.InterpolatedUnivariateSpline "
        "scipy.interpolate.make_interp_spline scipy.interpolate.PchipInterpolator "
        "scipy.interpolate.RegularGridInterpolator",
        frames=r"^scipy/interpolate/",
        where="item",
    ),
    SlowCall(
        "tree-built",
        "{call} builds a tree or triangulation of all points each time",
        "build it, or the lists of neighbours, once before training",
        sources.NEIGHBOURS,
        "scipy.spatial.cKDTree scipy.spatial.KDTree scipy.spatial.Delaunay "
        "scipy.spatial.ConvexHull scipy.spatial.Voronoi sklearn.neighbors.KDTree "
        "sklearn.neighbors.BallTree sklearn.neighbors.NearestNeighbors",
        frames=r"^$|^(scipy/spatial|sklearn/neighbors)/",
        where=EACH,
    ),
    SlowCall(
        "noise-drawn",
        "{call} draws float64 numbers with NumPy's old generator",
        "use rng.standard_normal(shape, dtype=np.float32) of np.random.default_rng(), or add "
        "the noise to the batch on the device",
        sources.GENERATOR,
        "numpy.random.normal numpy.random.randn numpy.random.standard_normal",
        native=True,
        given=r"size=|shape|randn\([^)]|standard_normal\([^)]|normal\([^,]*,[^,]*, ",
        where="item",
    ),
    SlowCall(
        "fft-per-item",
        "{call} transforms each item by itself on the CPU",
        "use torch.fft on the whole batch on the device or scipy.fft (float32 stays float32), "
        "or compute it once before training",
        sources.SCIPY_FFT,
        "numpy.fft.*",
        frames=r"^numpy/fft/",
        where="item",
    ),
    SlowCall(
        "sparse-converted",
        "{call} builds a sparse matrix each time",
        "build it once before training as CSR, and slice its indptr, indices and data",
        sources.SPARSE,
        "*.tocsr *.tocoo *.tocsc *.tolil scipy.sparse.csr_matrix scipy.sparse.coo_matrix "
        "scipy.sparse.csc_matrix scipy.sparse.lil_matrix scipy.sparse.vstack scipy.sparse.hstack "
        "scipy.sparse.diags",
        frames=r"^scipy/sparse/",
        where=EACH,
    ),
    SlowCall(
        "text-table-at-start",
        "{call} parses numbers out of text in every run",
        "save the array once with np.save, and load that",
        sources.NPY_ONCE,
        "numpy.loadtxt numpy.genfromtxt",
        frames=r"^numpy/lib/",
        where="start",
    ),
    SlowCall(
        "array-column",
        "samples are columns of an array whose rows lie together in memory: each value is "
        "fetched from another place",
        "store one sample per row: np.ascontiguousarray(array.T) once in __init__, then array[i]",
        sources.STRIDES,
        "*",
        frames=r"^$|^numpy/|^torch/",
        within=r"def __getitem__\((\w+), (\w+)\b[^)]*\)[^:]*:[\s\S]*\b\1\.\w+\[(:, )+\2\]",
        where="item",
        least=0.5,
        general=True,
    ),
    SlowCall(
        "array-appended",
        "{call} copies the whole array each time",
        "gather the parts in a list and join them once, or write into an array made large enough",
        sources.APPENDING,
        "numpy.append numpy.insert numpy.delete",
    ),
    SlowCall(
        "array-grown",
        "{call} copies everything gathered so far each time",
        "append to a list and call it once after the loop",
        sources.APPENDING,
        "numpy.concatenate numpy.vstack numpy.hstack numpy.column_stack numpy.stack",
        frames=r"^$|numpy",
        grown=True,
    ),
    SlowCall(
        "vectorize",
        "np.vectorize calls the Python function once for each number: it is a loop",
        "write it with operators on whole arrays, np.where, or a table indexed by the array",
        sources.VECTORIZE,
        "numpy.vectorize numpy.vectorize.__call__ numpy.frompyfunc *.pyfunc",
        frames=r"vectorize\S*|_vectorize_call",
        least=0.2,
    ),
    SlowCall(
        "along-axis",
        "{call} calls a Python function for each row",
        "use axis= of the function itself, or broadcasting",
        sources.ALONG_AXIS,
        "numpy.apply_along_axis numpy.apply_over_axes numpy.fromfunction numpy.piecewise",
        frames=r"numpy/lib/\S*shape_base\S*|apply_along_axis|apply_over_axes|piecewise|fromfunction",
        least=0.2,
    ),
    SlowCall(
        "array-elements",
        "{call} visits each element of the array in Python",
        "use operators on whole arrays, or masks",
        sources.VECTORIZE,
        "numpy.nditer numpy.ndenumerate numpy.ndindex",
        frames=r"^$|numpy/lib",
    ),
    SlowCall(
        "array-of-tensors",
        "np.array of a list of tensors converts each element by itself",
        "call torch.stack on the tensors, then .numpy() once",
        sources.ARRAYS_IN_LIST,
        "numpy.array numpy.asarray",
        frames=r"torch/_tensor\.py",
    ),
    SlowCall(
        "array-from-list",
        "{call} reads the list {x} number by number each time",
        "keep an array made large enough, and write new values into it",
        sources.APPENDING,
        "numpy.array(list) numpy.asarray(list) numpy.array(dict) numpy.fromiter",
        native=True,
        where=EACH,
        least=0.5,
    ),
    SlowCall(
        "mean-of-list",
        "{call} makes an array of the whole list {x} each time",
        "keep a running mean, or the last N values in a deque(maxlen=N)",
        sources.APPENDING,
        "numpy.mean(list) numpy.sum(list) numpy.std(list) numpy.max(list) numpy.min(list)",
        least=0.5,
    ),
    SlowCall(
        "choice-without-replacement",
        "{call} permutes the whole population to choose a few of it",
        "draw with np.random.default_rng().choice(..., shuffle=False), or keep one permutation "
        "per epoch",
        sources.WITHOUT_REPLACEMENT,
        "numpy.random.choice numpy.random.permutation",
        native=True,
        given=r"replace=False|, False|permutation",
        where=EACH,
    ),
    SlowCall(
        "choice-weighted",
        "{call} sums the probabilities up anew for each draw",
        "draw many at once, or keep the cumulative sum and use np.searchsorted; where the weights "
        "change in each step, as in prioritized replay, keep their sums in a tree",
        sources.CHOICE,
        "numpy.random.*.choice numpy.random.choice *.choice",
        native=True,
        given=r"\bp=",
        where=EACH,
    ),
    SlowCall(
        "seeded-each-time",
        "{call} sets up a random generator each time",
        "make one generator in __init__ (one per worker) and keep it",
        sources.CHOICE,
        "numpy.random.seed numpy.random.RandomState numpy.random.default_rng",
        native=True,
        where="item step",
    ),
    SlowCall(
        "multivariate-normal",
        "{call} factors the covariance matrix each time",
        "factor it once (np.linalg.cholesky) and multiply standard normal numbers by it",
        sources.CHOICE,
        "numpy.random.multivariate_normal scipy.stats.multivariate_normal.*",
        frames=r"^$|^scipy/|^numpy/",
    ),
    SlowCall(
        "array-padded",
        "{call} pads in Python, axis by axis",
        "make the array with zeros and write into a slice of it, or pad the batch with torch",
        sources.APPENDING,
        "numpy.pad",
        where=EACH,
    ),
    SlowCall(
        "array-inverted",
        "{call} inverts a matrix each time",
        "factor or invert it once if it does not change, or np.linalg.solve",
        sources.SOLVE,
        "numpy.linalg.inv numpy.linalg.pinv scipy.linalg.inv",
    ),
    SlowCall(
        "array-decomposed",
        "{call} decomposes a matrix on the CPU each time",
        "do it once before training, less often, or for a batch of matrices in one call",
        sources.SMALL_EIGEN,
        "numpy.linalg.svd numpy.linalg.eig numpy.linalg.eigh numpy.linalg.qr scipy.linalg.svd "
        "scipy.linalg.eigh scipy.linalg.expm scipy.linalg.sqrtm scipy.sparse.linalg.* "
        "numpy.linalg.lstsq numpy.linalg.matrix_rank numpy.linalg.cond numpy.linalg.svdvals "
        "numpy.polyfit scipy.linalg.lstsq scipy.linalg.svdvals scipy.linalg.qr",
    ),
    SlowCall(
        "array-sorted-for-quantile",
        "{call} sorts or partitions all values each time",
        "use a sample of them, or np.partition along one axis once per epoch",
        sources.VECTORIZE,
        "numpy.median numpy.percentile numpy.quantile numpy.nanmedian numpy.nanpercentile",
    ),
    SlowCall(
        "array-difference",
        "{call} sorts both arrays for each item, to leave out what is in the second",
        "where some of what is left is drawn, as for negative samples, draw from all of {x} and "
        "draw again what a set, or a row of a boolean mask, made once, holds; where all of it is "
        "needed, make it once before training",
        sources.NEGATIVES,
        "numpy.setdiff1d",
        where="item step",
    ),
    SlowCall(
        "set-difference-drawn",
        "all that is in the first set and not in the second is gathered for each item, to draw a "
        "few of it",
        "draw from all of it, and draw again what the second set holds: while (item := "
        "random.choice(items)) in seen: pass",
        sources.NEGATIVES,
        "set.__op__ frozenset.__op__ *.difference",
        native=True,
        given=r"^[\w.]+(\[[\w.]+\])? - [\w.]+(\[[\w.]+\])?$|\.difference\(",
        within=r"\b(random|rng|np\.random|numpy\.random)\.(sample|choice|choices)\(",
        where="item step",
    ),
    SlowCall(
        "array-unique",
        "{call} sorts all values each time",
        "use np.bincount for small whole numbers, or compute them once before training",
        sources.VECTORIZE,
        "numpy.unique numpy.isin numpy.in1d numpy.intersect1d numpy.setdiff1d",
    ),
    SlowCall(
        "array-histogram",
        "{call} bins all values on the CPU each time",
        "use np.bincount for whole numbers or torch.histc on the device, or do it every N steps",
        sources.HISTOGRAMS,
        "numpy.histogram numpy.histogram2d numpy.histogramdd",
    ),
    SlowCall(
        "array-einsum",
        "np.einsum of several operands computes without a good order, in one loop",
        "pass optimize=True, or use matmul or tensordot",
        sources.VECTORIZE,
        "numpy.einsum",
        frames=r"numpy/(_core|core)/einsumfunc",
        without=r"optimize=(True|'optimal'|'greedy')",
    ),
    SlowCall(
        "spline-interpolation",
        "{call} interpolates with splines, on the CPU, for each item",
        "use torch.nn.functional.interpolate or grid_sample on the batch, cv2, or order=1 with "
        "prefilter=False",
        sources.RESIZE,
        "scipy.ndimage.zoom scipy.ndimage.rotate scipy.ndimage.shift scipy.ndimage.map_coordinates "
        "scipy.ndimage.affine_transform scipy.ndimage.geometric_transform",
    ),
    SlowCall(
        "distance-map",
        "{call} computes a distance map of a mask on the CPU, each time the mask is used",
        "compute the maps of labels once for each sample, where the dataset is made, keep them (in "
        "a file or in memory), and hand them over with the batch; maps of predictions every few "
        "steps, or as distances on a smaller grid",
        sources.DISTANCE_MAPS,
        "scipy.ndimage.distance_transform_edt scipy.ndimage.distance_transform_cdt "
        "scipy.ndimage.distance_transform_bf scipy.ndimage.morphology.distance_transform_edt "
        "cv2.distanceTransform skimage.morphology.medial_axis edt.edt",
        frames=r"^$|^scipy/ndimage/|^cv2/|^skimage/",
        where=EACH,
        least=0.25,
    ),
    SlowCall(
        "scipy-filter",
        "{call} filters on the CPU for each item",
        "filter the batch with a convolution on the device, or prepare the data once",
        sources.SPLINES,
        "scipy.ndimage.gaussian_filter scipy.ndimage.median_filter scipy.ndimage.uniform_filter "
        "scipy.ndimage.label scipy.ndimage.binary_* scipy.ndimage.grey_* "
        "scipy.ndimage.maximum_filter scipy.ndimage.minimum_filter scipy.ndimage.percentile_filter "
        "scipy.ndimage.gaussian_filter1d scipy.ndimage.gaussian_laplace scipy.ndimage.sobel "
        "scipy.ndimage.gaussian_gradient_magnitude scipy.ndimage.convolve "
        "scipy.signal.medfilt scipy.signal.convolve2d",
        where=EACH,
    ),
    SlowCall(
        "signal-resampled",
        "{call} resamples each item anew",
        "resample the files once before training, or torchaudio.functional.resample a batch",
        sources.RESAMPLERS,
        "scipy.signal.resample scipy.signal.resample_poly scipy.signal.decimate resampy.resample "
        "librosa.resample soxr.resample",
    ),
    SlowCall(
        "signal-transformed",
        "{call} computes a spectrogram on the CPU for each item",
        "use torch.stft or torchaudio.transforms on the whole batch, on the device, or compute "
        "it once",
        sources.RESAMPLERS,
        "scipy.signal.stft scipy.signal.spectrogram scipy.signal.filtfilt scipy.signal.welch "
        "librosa.stft librosa.feature.* librosa.cqt librosa.effects.* librosa.pyin librosa.yin",
    ),
    SlowCall(
        "audio-resampled-at-load",
        "librosa.load resamples every file to 22,050 Hz unless told otherwise",
        "resample the files once before training and load with sr=None, or res_type='soxr_hq'",
        sources.RESAMPLING,
        "librosa.load librosa.core.load",
        without=r"sr=None",
    ),
    SlowCall(
        "matlab-file",
        "{call} parses a MATLAB file for each item",
        "convert the files to .npy once and map them",
        sources.OPENED_EACH_ITEM,
        "scipy.io.loadmat mat73.loadmat scipy.io.wavfile.read",
        where=EACH,
    ),
    SlowCall(
        "assignment-on-cpu",
        "{call} solves an assignment on the CPU, one by one, while the device waits",
        "copy all costs of the batch to the host at once, or solve them in threads",
        sources.METRIC_SLOW,
        "scipy.optimize.linear_sum_assignment lap.lapjv",
        native=True,
    ),
    SlowCall(
        "optimised-on-cpu",
        "{call} runs an optimizer of its own for each call",
        "do it once before training, or less often",
        sources.METRIC_SLOW,
        "scipy.optimize.minimize scipy.optimize.curve_fit scipy.optimize.least_squares "
        "scipy.integrate.odeint scipy.integrate.solve_ivp scipy.integrate.quad",
    ),
    SlowCall(
        "sparse-to-dense",
        "{call} makes a dense array of a sparse matrix each time",
        "convert once before training, or use rows of a CSR matrix",
        sources.OPENED_EACH_ITEM,
        "*.toarray *.todense",
        frames=r"^scipy/sparse/",
        where=EACH,
    ),
    SlowCall(
        "sparse-indexed",
        "an index of a SciPy sparse matrix builds a new matrix in Python",
        "keep indptr, indices and data, and slice those",
        sources.HDF5_INDEX,
        frames=r"^scipy/sparse/\S*(_index|_csr|_compressed|csr|compressed)",
        where="item",
        least=0.5,
    ),
    SlowCall(
        "statistics-of-scipy",
        "{call} checks and wraps its arguments in Python for each call",
        "use the formula on whole arrays or tensors, or torch.distributions",
        sources.VALIDATION,
        "scipy.stats.*",
        frames=r"^scipy/stats/",
        least=0.5,
    ),
    SlowCall(
        "graph-in-python",
        "networkx keeps graphs as dicts and walks them in Python",
        "prepare the graphs once as index tensors, or use scipy.sparse.csgraph",
        sources.METRIC_SLOW,
        frames=r"^networkx/",
        least=0.5,
    ),
    SlowCall(
        "molecule-parsed",
        "each molecule is parsed and prepared with RDKit for each item",
        "do it once before training and store tensors",
        sources.PRETOKENIZED,
        "rdkit.Chem.MolFromSmiles rdkit.Chem.AllChem.* rdkit.Chem.MolFromMolBlock "
        "rdkit.Chem.AddHs rdkit.Chem.AllChem.EmbedMolecule",
        native=True,
        where=EACH,
    ),
    SlowCall(
        "compiled-by-numba",
        "numba compiles a function while the training runs",
        "use @njit(cache=True), call the function once before training, and always with the "
        "same types",
        sources.NUMBA,
        frames=r"^numba/(core/(compiler|dispatcher|typeinfer|lowering|codegen|types)|np/ufunc)|"
        r"^llvmlite/",
        least=0.3,
    ),
    SlowCall(
        "distances-on-cpu",
        "{call} compares all pairs on the CPU",
        "use torch.cdist or a matrix product on the device, in batches",
        sources.CDIST,
        "scipy.spatial.distance.* sklearn.metrics.pairwise.* sklearn.metrics.pairwise_distances",
        frames=r"^(scipy/spatial|sklearn/metrics)/",
        where=EACH,
    ),
    SlowCall(
        "array-concatenated-in-item",
        "{call} joins many small arrays for each item",
        "make one array of the final size and write into it, or store samples joined",
        sources.APPENDING,
        "numpy.concatenate numpy.stack numpy.vstack numpy.hstack",
        frames=r"^$|^numpy/|^<__array",
        given=r"\[.* for .* in",
        where="item",
        least=0.5,
    ),
    SlowCall(
        "shuffled-array",
        "{call} moves the rows of the whole array each time",
        "permute indices with a Generator and index the batch, or torch.randperm once per epoch",
        sources.CHOICE,
        "numpy.random.shuffle sklearn.utils.shuffle",
        frames=r"^$|^sklearn/",
        where="step item",
        least=0.5,
    ),
    SlowCall(
        "gaussian-on-grid",
        "a Gaussian around a point is computed at each pixel of the map, though it is the product "
        "of one along the rows and one along the columns",
        "np.outer(np.exp(-(rows - y) ** 2 / (2 * s**2)), np.exp(-(columns - x) ** 2 / (2 * s**2)))"
        ", for all points at once with [:, :, None] * [:, None, :]; or a patch of 3 s around it",
        sources.VECTORIZE,
        "numpy.exp torch.exp numpy.maximum numpy.meshgrid torch.meshgrid",
        native=True,
        within=r"(meshgrid|mgrid|indices)\b[\s\S]*\*\* 2 \+ [\s\S]*exp\(-",
        where="item",
        least=0.5,
    ),
    SlowCall(
        "gaussian-made",
        "a heat map is computed for each point by itself, over the whole image",
        "write a small patch made once around each point, or compute all maps as one array "
        "(or on the device)",
        sources.VECTORIZE,
        "numpy.exp torch.exp",
        frames=r"^$",
        within=r"for (\w+)(?:, \w+)* in [^\n]*(point|joint|landmark|keypoint|kp|center|box|ann)",
        where="item",
        in_loop=True,
    ),
    SlowCall(
        "choice-of-list",
        "{call} makes an array of the whole list {x} each time",
        "draw positions (rng.integers(len({x}), size=n)) and index the list",
        sources.CHOICE,
        "numpy.random.choice(list) numpy.random.Generator.choice(list)",
        native=True,
        where=EACH,
    ),
    SlowCall(
        "drawn-by-numpy",
        "{call} draws a single number, at the cost of many",
        "draw all at once before the loop (size=n), and take them one by one",
        sources.RANDOM_SCALARS,
        "numpy.random.randint numpy.random.uniform numpy.random.rand numpy.random.randn "
        "numpy.random.random numpy.random.normal numpy.random.choice "
        "numpy.random.Generator.integers numpy.random.Generator.random "
        "numpy.random.Generator.uniform numpy.random.Generator.normal "
        "numpy.random.Generator.choice",
        native=True,
        given=r"\.(rand|randn|random)\(\)$|\.choice\([^,]*\)$|"
        r"\.(randint|integers|uniform|normal)\([^,]*(, [^,]*)?\)$",
        without=r"size=|shape",
        in_loop=True,
        least=0.5,
    ),
)
