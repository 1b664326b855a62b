"""Public pages that describe the slow calls of the table."""

from __future__ import annotations

from perftui.diagnosis.slow_calls.row import Source


def _issue(title: str, path: str) -> Source:
    return Source(title, f"https://github.com/{path}")


UNIQUE_ROWS = _issue("torch.unique with dim is slow", "pytorch/pytorch/issues/18405")

MAPPED = Source(
    "NumPy, load: mmap_mode", "https://numpy.org/doc/stable/reference/generated/numpy.load.html"
)
ISLICE = Source(
    "Python, itertools.islice: elements are skipped until start",
    "https://docs.python.org/3/library/itertools.html#itertools.islice",
)
ELEMENT_TREE = Source(
    "Python, xml.etree.ElementTree", "https://docs.python.org/3/library/xml.etree.elementtree.html"
)
INSERTS = Source(
    "SQLite, INSERT is really slow, a few dozen per second", "https://www.sqlite.org/faq.html#q19"
)
TABLE_SCANS = Source("SQLite, Query planning", "https://www.sqlite.org/queryplanner.html")
LEXSORT = Source(
    "pandas, Sorting a MultiIndex", "https://pandas.pydata.org/docs/user_guide/advanced.html"
)
POLARS_ROWS = Source(
    "Polars, DataFrame.row",
    "https://docs.pola.rs/api/python/stable/reference/dataframe/api/polars.DataFrame.row.html",
)
ZARR_CHUNKS = Source(
    "Zarr, Optimizing performance", "https://zarr.readthedocs.io/en/stable/user-guide/performance/"
)
STRTREE = Source("Shapely, STRtree", "https://shapely.readthedocs.io/en/stable/strtree.html")
AV_THREADS = Source(
    "PyAV, Threading", "https://pyav.org/docs/stable/cookbook/basics.html#threading"
)
RESAMPLE_KERNEL = Source(
    "torchaudio, Audio resampling",
    "https://docs.pytorch.org/audio/stable/tutorials/audio_resampling_tutorial.html",
)
GENERATOR = Source(
    "NumPy, What's new or different in Generator",
    "https://numpy.org/doc/stable/reference/random/new-or-different.html",
)
FFTCONVOLVE = Source(
    "SciPy, fftconvolve",
    "https://docs.scipy.org/doc/scipy/reference/generated/scipy.signal.fftconvolve.html",
)
GRIDDATA = Source(
    "Speedup scipy griddata for multiple interpolations",
    "https://stackoverflow.com/questions/20915502/speedup-scipy-griddata-for-multiple-"
    "interpolations-between-two-irregular-grids",
)
INTERPOLATION = Source(
    "SciPy, 1-D interpolation", "https://docs.scipy.org/doc/scipy/tutorial/interpolate/1D.html"
)
SCIPY_FFT = Source("SciPy, scipy.fft", "https://docs.scipy.org/doc/scipy/reference/fft.html")
SPARSE = Source("SciPy, Sparse arrays", "https://docs.scipy.org/doc/scipy/reference/sparse.html")
VALIDATE_ARGS = Source(
    "TorchMetrics, validate_args: False for faster computations",
    "https://lightning.ai/docs/torchmetrics/stable/classification/accuracy.html",
)
THRESHOLDS = Source(
    "TorchMetrics, AUROC: thresholds",
    "https://lightning.ai/docs/torchmetrics/stable/classification/auroc.html",
)
MEAN_PRECISION = Source(
    "TorchMetrics, Mean average precision: backend",
    "https://lightning.ai/docs/torchmetrics/stable/detection/mean_average_precision.html",
)
IGNITE = Source("Ignite, Events and handlers", "https://docs.pytorch.org/ignite/concepts.html")
VECTOR_COPY = Source(
    "Gymnasium, AsyncVectorEnv: copy", "https://gymnasium.farama.org/api/vector/async_vector_env/"
)
SWA = Source(
    "PyTorch, Averaging weights: update_bn",
    "https://docs.pytorch.org/docs/stable/optim.html#weight-averaging-swa-and-ema",
)
PROTOCOLS = Source(
    "Python, typing.runtime_checkable",
    "https://docs.python.org/3/library/typing.html#typing.runtime_checkable",
)
ASYNCIO_RUN = Source(
    "Python, asyncio.run", "https://docs.python.org/3/library/asyncio-runner.html#asyncio.run"
)
FROMBUFFER = Source(
    "NumPy, frombuffer", "https://numpy.org/doc/stable/reference/generated/numpy.frombuffer.html"
)
TRANSLATE = Source(
    "Best way to strip punctuation from a string",
    "https://stackoverflow.com/questions/265960/best-way-to-strip-punctuation-from-a-string",
)
LINES = _issue("Read the csv in __init__, not for each item", "NRCan/geo-deep-learning/issues/418")
SHARDS = _issue(
    "Bottleneck with IterableDataset on many workers", "huggingface/accelerate/issues/158"
)
GZIP_SEEK = _issue("Seeking in files made by gzip", "samtools/htslib/issues/1391")
MASKED = _issue(
    "Use of masked arrays comes with huge performance drop", "Unidata/netcdf4-python/issues/809"
)
HUB = _issue("Prevent unnecessary requests to the hub", "vllm-project/vllm/pull/12837")
RESUMED = _issue(
    "skip_first_batches iterates through all batches", "huggingface/accelerate/issues/2859"
)
DISPATCHED = _issue(
    "Central dataloader: a synchronization at each batch", "huggingface/accelerate/pull/164"
)
PIPES = _issue("IterDataPipe is slower than MapDataPipe", "meta-pytorch/data/issues/492")
PROJECTIONS = _issue("PyProj transformers often reinstantiated", "SciTools/cartopy/issues/1915")
GRAB = _issue("Do not decode dropped frames", "Breakthrough/PySceneDetect/pull/22")
FRAMES_AT = _issue("get_frames_at is more efficient", "meta-pytorch/torchcodec/pull/303")
APPROXIMATE = _issue(
    "Incredibly slow speeds for loading videos", "meta-pytorch/torchcodec/issues/715"
)
WHOLE_IMAGES = _issue(
    "Whole images are loaded before small patches are cropped",
    "swift-n-brutal/illuminant_estimation/issues/2",
)
SLIDES = _issue("read_region from level 0 takes too long", "openslide/openslide-python/issues/100")
SMALL_IMAGES = _issue("Convert to Pillow or tensors before training", "pytorch/vision/pull/407")
VOLUMES = _issue("Resample once per image, not at each iteration", "ivadomed/ivadomed/pull/276")
ITK_COPIES = _issue(
    "Copying data from and to SimpleITK is slow", "TorchIO-project/torchio/issues/333"
)
F0 = _issue(
    "Running yaapt on the fly slows the training", "facebookresearch/speech-resynthesis/issues/4"
)
FARTHEST = _issue("Farthest point sampling is slow", "facebookresearch/pytorch3d/issues/1058")
MESH_SAMPLES = _issue(
    "The loader is slow when points are sampled", "lingtengqiu/Open-PIFuhd/issues/19"
)
NEIGHBOURS = _issue("Precompute the neighbours by a k-d tree", "WangYueFt/dcp/issues/6")
GROUPED = _issue(
    "Use groupby in the loop instead of a filter", "nestauk/asf_heat_pump_suitability/issues/33"
)
DATASET_STATISTICS = _issue("Precompute the dataset's mean and std", "bohaohuang/mrs/issues/27")
REPLACEMENT = _issue("Sampling with replacement costs less", "sfujim/TD3/issues/17")
ROLLED = _issue("np.roll makes a copy of the array", "stumpy-dev/stumpy/issues/239")
FILTER_DESIGN = _issue("Filters made in __init__", "SpikeInterface/spiketoolkit/pull/251")
NPY_ONCE = _issue("Save the parsed table as .npy", "pyro-ppl/numpyro/issues/434")
LOADED_AGAIN = _issue(
    "convert_to_coco_api loads and transforms the whole dataset", "pytorch/vision/issues/1888"
)
RICH_BAR = _issue("Remove the rich progress bar", "ourownstory/neural_prophet/pull/952")
DEVICE_STATS = _issue(
    "DeviceStatsMonitor logs all of memory_stats", "Lightning-AI/pytorch-lightning/issues/18652"
)
LOGITS = _issue("Preprocess logits before caching them", "huggingface/transformers/issues/15466")
DEEPSPEED_TIMERS = _issue("The throughput timer synchronizes", "deepspeedai/DeepSpeed/pull/5363")
VOCABULARY = _issue("get_vocab() unexpectedly slow", "huggingface/tokenizers/issues/483")
STOP_WORDS = _issue("Stop words computed in every call", "France-Travail/words_n_fun/pull/20")
RENDERED = _issue(
    "Inefficient render_mode usage",
    "Kautenja/playing-mario-with-deep-reinforcement-learning/issues/32",
)
SUM_TREE = _issue("Vectorized ReplayMemory and SegmentTree", "Kaixhin/Rainbow/pull/74")
FIELDS = _issue("One tensor for each field of the replay buffer", "tracel-ai/burn/issues/4488")
TYPE_CHECKS = _issue("Disable jaxtyping where it slows down", "patrick-kidger/jaxtyping/issues/331")
MULTI_AVERAGE = _issue("Optimized EMA implementation", "pytorch/pytorch/pull/94820")
EMA_SPEED = _issue("The EMA iterates over all parameters", "lucidrains/ema-pytorch/issues/5")
CUMULATIVE_WEIGHTS = _issue(
    "cum_weights save work in random.choices", "python/cpython/issues/101128"
)
UNPACKED = _issue("Extract data only once", "tinygrad/tinygrad/pull/1980")
TABLE_FORMATS = Source(
    "pandas, Formats: performance considerations",
    "https://pandas.pydata.org/docs/user_guide/io.html#performance-considerations",
)
DECODE_JPEG = Source(
    "torchvision, decode_jpeg",
    "https://docs.pytorch.org/vision/stable/generated/torchvision.io.decode_jpeg.html",
)
KORNIA = Source(
    "Kornia, Augmentation of batches on the GPU",
    "https://kornia.readthedocs.io/en/latest/augmentation.html",
)
NIBABEL = Source("NiBabel, Images and memory", "https://nipy.org/nibabel/images_and_memory.html")
PIPELINE_BATCHES = Source(
    "Transformers, Pipelines: batching",
    "https://huggingface.co/docs/transformers/main_classes/pipelines",
)
GET_SCALE = Source(
    "PyTorch, GradScaler.get_scale: incurs a sync", "https://docs.pytorch.org/docs/stable/amp.html"
)
HDF5_KEYS = _issue("Fast keys: a minute for 50,000 groups", "h5py/h5py/pull/305")
STORE_KEYS = _issue("HDFStore().keys() slow", "pandas-dev/pandas/issues/17593")
IMAGE_ARRAYS = _issue("Increase buffer size of Image.tobytes", "python-pillow/Pillow/pull/9220")
CLIPS = _issue("Load VideoClips from pre-computed metadata", "pytorch/vision/pull/1154")
FFMPEG = _issue("Too slow: ffmpeg reads up to the clip", "google-deepmind/dmvr/issues/9")
TOKENS_AT_ONCE = _issue("Batch convert_tokens_to_ids calls", "vllm-project/vllm/pull/40102")
FINGERPRINTS = _issue("Fingerprints as the last, expensive step", "meta-pytorch/data/issues/492")
OF_A_CLASS = _issue("Compute indices of each class outside the loop", "pytorch/examples/pull/47")
CONFUSION = Source(
    "torchmetrics, a confusion matrix by bincount",
    "https://lightning.ai/docs/torchmetrics/stable/classification/confusion_matrix.html",
)
PAIRS = Source(
    "PyTorch, MarginRankingLoss",
    "https://docs.pytorch.org/docs/stable/generated/torch.nn.MarginRankingLoss.html",
)
DISTANCE_MAPS = Source(
    "SciPy, distance_transform_edt",
    "https://docs.scipy.org/doc/scipy/reference/generated/scipy.ndimage.distance_transform_edt.html",
)
NEIGHBOUR_LOADER = _issue(
    "Faster NeighborLoader through shared memory", "pyg-team/pytorch_geometric/pull/3734"
)
RECORDS_COPIED = _issue("Deep copies of dataset records", "facebookresearch/detectron2/issues/939")
TUNING = Source(
    "PyTorch Performance Tuning Guide",
    "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide",
)
SERIALIZATION = Source(
    "PyTorch, Serialization semantics",
    "https://docs.pytorch.org/docs/stable/notes/serialization.html",
)
APPENDING = Source(
    "Optimal way to append to numpy array",
    "https://stackoverflow.com/questions/25649788/optimal-way-to-append-to-numpy-array/25649863",
)
LIST_AS_QUEUE = Source(
    "python-list, list.pop(0) vs. collections.deque",
    "https://mail.python.org/pipermail/python-list/2010-January/565240.html",
)
GLOB = _issue('treat "glob" as an expensive operation', "milesial/Pytorch-UNet/issues/449")
WALKING = _issue("Faster dataset indexing using ImageFolder", "pytorch/vision/issues/3902")
FILE_PAIRS = _issue("TextImageDataset bottlenecks", "lucidrains/DALLE-pytorch/issues/216")
DEQUE = _issue("random.shuffle slow on deque", "python/cpython/issues/48373")
OPENED_EACH_ITEM = _issue("Input opened for every item", "flairNLP/flair/issues/1669")
ZIP_INDEX = _issue("Read COCO dataset from ZIP file", "pytorch/vision/pull/950")
TAR_MEMBERS = _issue("Tarfiles", "mlmed/torchxrayvision/pull/27")
HDF5_OPENING = _issue("Performance is slowed by file closing", "h5py/h5py/issues/1198")
HDF5_INDEX = _issue("Single index access is surprisingly slow", "h5py/h5py/issues/994")
HDF5_WORKERS = _issue("Data Loader does not work with Hdf5 file", "pytorch/pytorch/issues/11929")
ROWS_OF_TENSORS = _issue("Speed up data loading for TensorDataset", "pytorch/pytorch/issues/4959")
IN_MEMORY = _issue(
    "Dataloader extremely slow on in-memory datasets", "pytorch/pytorch/issues/106704"
)
FRAME_ROWS = _issue("Faster dataset iteration", "braindecode/braindecode/pull/89")
FRAME_LOOPS = _issue("Iterating over a DataFrame row by row", "pandas-dev/pandas/issues/10334")
ARRAYS_IN_LIST = _issue("torch.tensor with list of arrays", "pytorch/pytorch/issues/57467")
PRINTED_TENSOR = _issue("Print FloatTensor is extremely slow", "pytorch/pytorch/issues/4190")
EMPTY_CACHE = _issue(
    "cuda.empty_cache slows down training", "huggingface/transformers/issues/31372"
)
TRACKER_FILES = _issue("Run Directory for Artifacts", "mosaicml/composer/pull/80")
TRACKER = _issue("Wandb Tensorboard logging takes 300-400% more time", "wandb/wandb/issues/950")
TRACKED_SAMPLES = _issue("Does per-sample logging bottleneck batching?", "wandb/wandb/issues/7861")
HISTOGRAMS = _issue("summaries are very slow", "HorizonRobotics/alf/issues/91")
PACKED = _issue("LSTM slow on PackedSequence", "pytorch/pytorch/issues/149194")
CELLS = _issue("Use a whole recurrent layer, not a cell", "mozilla/DeepSpeech/issues/1110")
JACOBIAN = _issue("Add a vectorize flag to jacobian and hessian", "pytorch/pytorch/issues/50584")
FIGURES = _issue("How to improve the speed of saving pictures", "matplotlib/mplfinance/issues/360")
WITHOUT_REPLACEMENT = _issue("torch.multinomial performance issue", "pytorch/pytorch/issues/11931")
CHOICE = _issue("np.random.choice slower than multinomial", "numpy/numpy/issues/7543")
ARROW_ITEMS = _issue("Abusurd slow on iteration", "huggingface/datasets/issues/5841")
ARROW_READS = _issue("datasets massively slows data reads", "huggingface/datasets/issues/7753")
METRIC_FORWARD = _issue(
    "How not to compute a metric at each update?", "Lightning-AI/torchmetrics/issues/1217"
)
METRIC_SLOW = _issue("EC test step/metrics slow", "gnn-tracking/gnn_tracking/issues/275")
SCORE_PER_EPOCH = _issue(
    "Scoring callback not on batch but on epoch", "skorch-dev/skorch/issues/55"
)
RESIZE = _issue("skimage.transform.resize is slow", "MIC-DKFZ/nnUNet/issues/1093")
SPLINES = _issue("Bottleneck at interpolate_img", "MIC-DKFZ/batchgenerators/issues/74")
OPENCV_THREADS = _issue("Set OpenCV's threads to 0", "open-mmlab/mmdetection/pull/6867")
RESAMPLING = _issue("librosa.core.load kwarg res_type", "librosa/librosa/issues/460")
RESAMPLERS = _issue(
    "Resample with torchaudio rather than librosa", "earthspecies/alp-data/issues/122"
)
VALIDATION = _issue("Enable distribution validation if __debug__", "pytorch/pytorch/pull/48743")
DEEPCOPY = _issue(
    "Shallow copying to increase performance 2x", "DLR-RM/stable-baselines3/issues/618"
)
BUFFER_COPY = _issue(
    "Unnecessary copying makes sampling time explode",
    "TianhongDai/hindsight-experience-replay/issues/1",
)
VECTORIZE = _issue("numpy.vectorize is essentially a for loop?", "numpy/numpy/issues/16763")
ALONG_AXIS = _issue("performance improvement by broadcasting", "javiljoen/lttb.py/pull/1")
NIFTI = _issue("Decompress for more efficient slice loading", "kaiko-ai/eva/pull/705")
WHY_NPY = _issue("why use npz instead of nii.gz for training?", "MIC-DKFZ/nnUNet/issues/566")
SEEKING = _issue("Extremely slow accurate seek", "dmlc/decord/issues/111")
PRETOKENIZED = _issue(
    "pre-training speed, data loader and gpu utilization", "AnswerDotAI/ModernBERT/issues/236"
)
TOKENIZER = _issue("tokenization slow", "huggingface/transformers/issues/1621")
PIPELINE = _issue("v2 standard pipeline running 10x slower", "explosion/spaCy/issues/1508")
SMALL_EIGEN = _issue("torch.linalg.eigh is slow on GPU", "pytorch/pytorch/issues/60537")
QR_ON_GPU = _issue("torch.linalg.qr is slower on GPU", "pytorch/pytorch/issues/143281")
SOLVE = _issue("Speed up runtime with linalg.solve", "PMBio/bicycle/pull/3")
ITERATED = _issue("Extremely slow python iteration on CPU vs NumPy", "pytorch/pytorch/issues/43153")
ITEMS = _issue(
    "Native method for iterating Python items of tensors", "pytorch/pytorch/issues/103352"
)
PIXELS = Source(
    "Pillow, PixelAccess class",
    "https://pillow.readthedocs.io/en/stable/reference/PixelAccess.html",
)
DRAFT = _issue("Image.thumbnail and draft", "python-pillow/Pillow/pull/1029")
SEEDED = _issue("torch.manual_seed leaks memory", "pytorch/pytorch/issues/55768")
ZEROED = _issue("zero_grad() set_to_none default True", "pytorch/pytorch/pull/92731")
TRACED = _issue("Sampling mode for tracemalloc", "python/cpython/issues/150494")
CLIPPING = _issue("Foreach gradient clipping", "pytorch/pytorch/pull/91846")
CLIP_SYNC = _issue("Slow clip_grad_norm_ because of .item() calls", "pytorch/pytorch/issues/31474")
OBJECTS = _issue("Document object collectives limitations", "pytorch/pytorch/pull/150815")
WEIGHTED = _issue("faster WeightedRandomSampler", "pytorch/pytorch/issues/94131")
RANDOM_SAMPLER = _issue("RandomSampler is slow with huge dataset", "pytorch/pytorch/issues/50689")
SYNCS = _issue("Unnecessary cuda synchronizations", "pytorch/pytorch/issues/108968")
REPEATS = _issue("Use output_size in repeat_interleave", "huggingface/diffusers/pull/11030")
LIGHTNING_LOG = _issue(
    "Logging dominating the training time", "Lightning-AI/pytorch-lightning/issues/1986"
)
RELOADED = _issue("Load train data outside of epochs loop", "kohya-ss/sd-scripts/pull/120")
VECTOR_ENV = _issue("Vectorized environments", "openai/gym/pull/1513")
NPZ = _issue("np.load reads the members of an .npz lazily", "numpy/numpy/pull/32306")
STRIDES = _issue("Feature sampling via a row-major array", "stellargraph/stellargraph/pull/1225")
QUANTILE = _issue("Quantile has poor performance", "pytorch/pytorch/issues/64947")
BILINEAR = _issue("TrilinearBackward takes most of the time", "pytorch/pytorch/issues/58093")
PARAMETRIZED = _issue("Redundant computations of parametrizations", "lezcano/geotorch/issues/34")
EINSUM = _issue("Path of contraction for einsum", "pytorch/pytorch/pull/84890")
IGNORED = _issue("Logits of the masked tokens only", "facebookresearch/pytext/pull/957")
OFFSET = Source(
    "SQLite, LIMIT: avoiding OFFSET traps",
    "https://runebook.dev/en/docs/sqlite/lang_select/limitoffset",
)
HEADS = _issue("Multi channel linear layer", "pytorch/pytorch/issues/36591")
SPECTROGRAMS = _issue("Loading the dataset is slow", "Rudrabha/Wav2Lip/issues/447")
SPECTRAL = _issue("Spectral norm by power iteration", "pytorch/pytorch/issues/12760")
LMDB_READS = _issue("LMDB read speed: fewer transactions", "jnwatson/py-lmdb/issues/274")
HDF5_FANCY = _issue("Fancy selection with many indices can be slow", "h5py/h5py/issues/2536")
HDF5_WHOLE = _issue(
    "Timestamps lookup is slow: read the array once", "NeurodataWithoutBorders/pynwb/issues/1276"
)
CONFIGS = _issue(
    "Performance: fields of a DictConfig read several times a second",
    "facebookresearch/habitat-lab/pull/1120",
)
ANNDATA = _issue("Performance of slicing AnnData", "scverse/anndata/issues/317")
POLYAK = _issue("Faster target update using foreach", "pytorch/rl/pull/2046")
LATENTS = _issue(
    "Cache latents to avoid VAE passes for every training step", "huggingface/diffusers/pull/6076"
)
MODULE_WALK = _issue("Call named_modules once", "pytorch/ao/pull/3159")
MASKS_DECODED = _issue("mask.decode is slow", "cocodataset/cocoapi/issues/647")
GRAPHS = _issue("GCN normalisation, computed before", "snap-stanford/ogb/issues/157")
GRAPH_TRANSFORMS = _issue(
    "Time of custom transforms of graphs", "pyg-team/pytorch_geometric/issues/7094"
)
CAUSAL_MASK = _issue("Cost of triu at each attention", "rasbt/LLMs-from-scratch/issues/279")
POSITIONS = _issue(
    "Positional encodings computed on the CPU at every forward",
    "huggingface/transformers/pull/44782",
)
POSITION_CACHE = _issue(
    "A cache for positional encodings", "tatp22/multidim-positional-encoding/pull/19"
)
EXPERTS = _issue("A loop over experts as one batched product", "unslothai/unsloth-zoo/pull/827")
SEPARABLE = _issue("A separable Gaussian in elastic_transform2d", "kornia/kornia/pull/3817")
GATHER = _issue("Gather backward is faster than integer indexing", "pytorch/pytorch/issues/15245")
CDIST = _issue("cdist backward should be matrix products", "pytorch/pytorch/issues/31599")
PADDING = _issue(
    "Faster padding of lists of tensors", "huggingface/sentence-transformers/pull/3942"
)
PENALTY = _issue("Very slow for gradient penalty", "pytorch/pytorch/issues/7714")
LFILTER = _issue("Performance of lfilter", "pytorch/audio/issues/1238")
NEED_WEIGHTS = _issue(
    "MultiheadAttention without the fused attention", "pytorch/pytorch/issues/100347"
)
NMS_LOOPS = _issue("Loops of NMS as one batched_nms", "LibreYOLO/libreyolo/pull/203")
PHONEMES = _issue("Speed up phonemizer", "bootphon/phonemizer/issues/37")
VEC_ENVS = _issue("Speed of DummyVecEnv and SubprocVecEnv", "openai/baselines/issues/608")
ASDICT = _issue("dataclasses.asdict does deepcopy on all fields", "python/cpython/issues/88071")
HUE = _issue("Speed of adjusting the hue", "pytorch/vision/pull/6805")
PITCH = _issue("Time of changing pitch and speed on the fly", "mozilla/DeepSpeech/pull/2255")
AUDIO_SPEED = _issue("Speed table for audiomentations", "iver56/audiomentations/issues/190")
SYNC_DIST = _issue("Reductions of metrics at each step", "sb-ai-lab/RePlay/pull/100")
NUMBA = _issue("Activate numba's cache", "vlouf/dealias/pull/13")
PROFILING = _issue("Profiling of a few steps only", "AnswerDotAI/fsdp_qlora/pull/67")
IMAGE_SCORES = _issue("Speed of training with LPIPS", "1231234zhan/mmlphuman/issues/6")
MAX_NORM = _issue("Embedding max_norm option slow", "pytorch/pytorch/issues/1278")
READ_ONCE = _issue("Reads the whole file for each sample", "torchgeo/torchgeo/issues/1754")
TABLE_GROUPED = _issue("Group the table of tracks once", "vanTeeffelenLab/ExTrack/pull/5")
SHARDING = _issue(
    "Bottleneck with IterableDataset on many workers", "huggingface/accelerate/issues/158"
)
UNREAD = _issue(
    "A spectrum of each recording that nobody uses",
    "astorfi/3D-convolutional-speaker-recognition-pytorch/issues/9",
)
LAST_READ = _issue("Query loss after each inner step", "dragen1860/MAML-Pytorch/issues/23")
RARELY_READ = _issue("Metrics only in the steps that log", "datamol-io/graphium/pull/409")
SCANNED = _issue("Time of searching an item's file", "sdatkinson/neural-amp-modeler/issues/45")
FRAMES_KEPT = _issue("Decode sampled frames only", "Netflix/void-model/pull/12")
LENGTHS = _issue(
    "LengthGroupedSampler slowly iterates over dataset", "huggingface/transformers/issues/10909"
)
LOGITS_ENLARGED = _issue(
    "Convolutions on features of the original size are dear",
    "HRNet/HRNet-Semantic-Segmentation/issues/138",
)
CROP_FIRST = Source(
    "Albumentations, Optimizing Augmentation Pipelines for Speed",
    "https://albumentations.ai/docs/3-basic-usage/performance-tuning",
)
INDEX_ADD = Source(
    "PyTorch, Tensor.index_add_",
    "https://docs.pytorch.org/docs/stable/generated/torch.Tensor.index_add_.html",
)
VMAP = Source(
    "PyTorch, torch.vmap", "https://docs.pytorch.org/docs/stable/generated/torch.vmap.html"
)
CACHED_SAMPLES = Source(
    "MONAI, Cache IO and transforms data to accelerate training",
    "https://github.com/Project-MONAI/MONAI/blob/dev/docs/source/highlights.md",
)
NEGATIVES = Source(
    "HBC Tech, Negative Sampling in Numpy",
    "https://tech.hbc.com/2018-03-23-negative-sampling-in-numpy.html",
)
CAUSAL = Source(
    "Are transformer decoder predictions computed in parallel during training?",
    "https://ai.stackexchange.com/questions/40119/are-transformer-decoder-predictions-computed-in-parallel-during-training",
)
RETURNS = _issue("Compute the return of each step backwards", "huggingface/deep-rl-class/pull/95")
MESSAGES = Source(
    "DGL User Guide, Writing Efficient Message Passing Code",
    "https://www.dgl.ai/dgl_docs/guide/message-efficient.html",
)
LOW_RANK = _issue("Order of products of low-rank factors", "microsoft/LoRA/issues/109")
STANDARDISED = _issue("Make weight standardization faster", "chainer/chainer/pull/7963")
SPACE_TO_DEPTH = _issue(
    "Is the Focus layer equivalent to a simple Conv layer?", "ultralytics/yolov5/issues/4825"
)
PERMUTED = Source(
    "TorchMetrics, Permutation invariant training: mode='speaker-wise'",
    "https://lightning.ai/docs/torchmetrics/v1.0.0/audio/permutation_invariant_training.html",
)
LOW_RANK_NORMAL = Source(
    "PyTorch, LowRankMultivariateNormal",
    "https://pytorch.org/docs/stable/_modules/torch/distributions/lowrank_multivariate_normal.html",
)
RELATIONS = _issue(
    "segment_matmul in place of a loop over relations", "pyg-team/pytorch_geometric/pull/5052"
)
DURATIONS = _issue("Refactor length regulator to improve the speed", "espnet/espnet/pull/2482")
CHEBYSHEV = _issue(
    "Vectorize the loop over degrees of Chebyshev polynomials", "SynodicMonth/ChebyKAN/pull/7"
)
SPLINES = _issue("B-splines without the recursion", "Blealtan/efficient-kan/issues/63")
CORRELATION = _issue("Correlation by a loop, or by unfold", "NVlabs/PWC-Net/issues/121")
SLICED = _issue("Sliced Wasserstein distance", "PythonOT/POT/pull/203")
NT_XENT = _issue("NT-Xent loss without slow masks", "lightly-ai/lightly/pull/340")
FOREACH = _issue("torch._foreach_ for speed", "kozistr/pytorch_optimizer/issues/287")
RESIZED_POSITIONS = _issue(
    "Position embeddings are resized when they are loaded",
    "huggingface/pytorch-image-models/issues/908",
)
JOINTS = _issue("Transforms of joints are computed in sequence", "vchoutas/smplify-x/issues/25")
PATHS = _issue("Integrated gradients of all steps as a batch", "meta-pytorch/captum/issues/713")
ACYCLIC = _issue("Speed of DAGMA and NOTEARS", "kevinsbello/dagma/issues/3")
DENSE_GRAPH = _issue("Why adjacency matrices are sparse", "tkipf/gcn/issues/105")
FORWARD_MODE = Source(
    "PyTorch, torch.autograd.functional.jvp: the double backward trick",
    "https://docs.pytorch.org/docs/stable/generated/torch.autograd.functional.jvp.html",
)
MODULATED = _issue("Styles on features, not on weights", "NVlabs/stylegan2-ada-pytorch/issues/122")
TRUNCATED = _issue("Truncated SVD", "pytorch/pytorch/issues/8049")
AMAX = _issue("Use torch.amax instead of torch.max", "facebookresearch/detectron2/pull/5224")
ENTRIES = _issue(
    "Stack a rotation matrix's entries, do not assign them", "Genentech/beignet/pull/92"
)
BINNED = _issue(
    "Improve calibration error speed by replacing a loop", "Lightning-AI/torchmetrics/pull/769"
)
SAMPLED_BY_HAND = _issue(
    "Replace a handmade bilinear sampler with grid_sample", "OniroAI/MonoDepth-PyTorch/pull/4"
)
ROI_ALIGN = Source(
    "TorchVision, roi_align",
    "https://docs.pytorch.org/vision/stable/generated/torchvision.ops.roi_align.html",
)
ONE_HOT_LAYER = Source(
    "Embedding vs. linear layer in PyTorch",
    "https://ajkdrag.in/4-Articles/Embedding-vs-Linear-layer-in-PyTorch",
)
VECTOR_NORM = Source(
    "PyTorch, torch.linalg.vector_norm",
    "https://docs.pytorch.org/docs/stable/generated/torch.linalg.vector_norm.html",
)
FIXED_STEPS = _issue(
    "Gradients through an ODE: 256 or 64 steps",
    "DifferentiableUniverseInitiative/flowpm/issues/82",
)
POOLED_BY_SCATTER = _issue("Pooling is a call of scatter", "pyg-team/pytorch_geometric/pull/2207")
PATCHES = _issue(
    "Conv3d of patches is much slower than a linear layer", "huggingface/transformers/issues/45750"
)
UNFOLD_BACKWARD = _issue("Tensor unfold backward is slow", "pytorch/pytorch/issues/17501")
ALL_PAIRS = _issue("Broadcast add in place of pairs of features", "diegoantognini/pyGAT/pull/63")
OFFSETS = Source(
    "Swin Transformer V2, relative_coords_table",
    "https://github.com/microsoft/Swin-Transformer/blob/main/models/swin_transformer_v2.py",
)
FLEX = Source("PyTorch, FlexAttention", "https://pytorch.org/blog/flexattention/")
GRADIENTS = _issue(
    "Performance of computing partial derivative", "NeuroDiffGym/neurodiffeq/issues/77"
)
MATCHER = _issue("Reduce HungarianMatcher's space complexity", "facebookresearch/detr/pull/606")
MULTIVARIATE = Source(
    "PyTorch, MultivariateNormal",
    "https://docs.pytorch.org/docs/stable/distributions.html#multivariatenormal",
)
FLOWS = Source(
    "Glow: Generative Flow with Invertible 1x1 Convolutions, section 3.2",
    "https://arxiv.org/abs/1807.03039",
)
STFT = Source("PyTorch, torch.stft", "https://docs.pytorch.org/docs/stable/generated/torch.stft")
TORCH_SPARSE = Source("PyTorch, torch.sparse", "https://docs.pytorch.org/docs/stable/sparse.html")
ENVELOPE = Source(
    "GeomLoss, Sinkhorn divergences",
    "https://www.kernel-operations.io/geomloss/api/pytorch-api.html",
)
TRIPLETS = Source(
    "Triplet loss and online triplet mining",
    "https://omoindrot.github.io/triplet-loss",
)
FUNCTIONS = Source(
    "PyTorch, torch.nn.functional", "https://docs.pytorch.org/docs/stable/nn.functional.html"
)
WITH_LOGITS = Source(
    "PyTorch, BCEWithLogitsLoss",
    "https://docs.pytorch.org/docs/stable/generated/torch.nn.BCEWithLogitsLoss.html",
)
SMOOTHING = Source(
    "PyTorch, CrossEntropyLoss: label_smoothing",
    "https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html",
)
CONTRASTIVE = Source(
    "SimCLR, section 2.1: the loss of a positive pair", "https://arxiv.org/abs/2002.05709"
)
MARGIN = _issue("The margin of the target logits", "deepinsight/insightface/issues/2026")
TOPK = Source(
    "PyTorch, torch.topk", "https://docs.pytorch.org/docs/stable/generated/torch.topk.html"
)
LOVASZ = _issue("Vectorize lovasz_softmax loss", "kornia/kornia/pull/2884")
SSIM = _issue("Use separable filter for SSIM to speed up", "kornia/kornia/pull/2383")
EINSUM_DOCS = Source(
    "PyTorch, torch.einsum", "https://docs.pytorch.org/docs/stable/generated/torch.einsum.html"
)
CENTRED = Source(
    "scikit-learn, KernelCenterer",
    "https://scikit-learn.org/stable/modules/generated/sklearn.preprocessing.KernelCenterer.html",
)
COX = _issue("Products of the Cox datafit in linear time", "scikit-learn-contrib/skglm/pull/168")
AUTOCORRELATION = Source(
    "statsmodels, acf: fft",
    "https://www.statsmodels.org/stable/generated/statsmodels.tsa.stattools.acf.html",
)
CRPS = Source(
    "Estimation of the CRPS with limited information: sorted members",
    "https://link.springer.com/article/10.1007/s11004-017-9709-7",
)
CRF = _issue("Forward optimization: all tags at once", "rguthrie3/BiLSTM-CRF/issues/6")
CRF_SLOW = _issue("CRF layer speed too slow", "kmkurn/pytorch-crf/issues/72")
CTC = Source(
    "PyTorch, ctc_loss",
    "https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.ctc_loss.html",
)
PER_SAMPLE = Source(
    "PyTorch, Per-sample gradients",
    "https://docs.pytorch.org/tutorials/intermediate/per_sample_grads.html",
)
TRACE = Source("FFJORD, section 3.1: unbiased estimates", "https://arxiv.org/abs/1810.01367")
ATTACK = _issue(
    "Gradients of the weights while examples are made", "P2333/Bag-of-Tricks-for-AT/issues/8"
)
CHAINS = Source(
    "Implicit Generation and Modeling with EBMs: a replay buffer",
    "https://arxiv.org/abs/1903.08689",
)
MULTINOMIAL = Source(
    "PyTorch, torch.multinomial",
    "https://docs.pytorch.org/docs/stable/generated/torch.multinomial.html",
)
RFFT = Source(
    "PyTorch, torch.fft.rfft", "https://docs.pytorch.org/docs/stable/generated/torch.fft.rfft.html"
)
WHERE = Source(
    "PyTorch, torch.where", "https://docs.pytorch.org/docs/stable/generated/torch.where.html"
)
POWERS = Source("PyTorch, torch.pow", "https://docs.pytorch.org/docs/stable/generated/torch.pow")
MINERS = Source(
    "PyTorch Metric Learning, Miners",
    "https://kevinmusgrave.github.io/pytorch-metric-learning/miners/",
)
ENTMAX = Source("entmax: sparse softmax", "https://github.com/deep-spin/entmax")
POT = Source("POT, Which solver to use", "https://pythonot.github.io/quickstart.html")
SCAN = _issue("Parallel associative scan", "pytorch/pytorch/issues/95408")
KV_CACHE = Source(
    "Transformers, Cache strategies", "https://huggingface.co/docs/transformers/kv_cache"
)
RELATIVE = Source(
    "Music Transformer, section 3.4: memory of relative positions",
    "https://arxiv.org/abs/1809.04281",
)
GAT = Source("Graph Attention Networks, section 2.1", "https://arxiv.org/abs/1710.10903")
BROADCASTING = Source(
    "PyTorch, Broadcasting", "https://docs.pytorch.org/docs/stable/notes/broadcasting.html"
)
CHAINS_OF_PRODUCTS = Source(
    "PyTorch, multi_dot: the order of products",
    "https://docs.pytorch.org/docs/stable/generated/torch.linalg.multi_dot.html",
)
CHEBYSHEV = Source(
    "Graphs with Fast Localized Spectral Filtering, section 2.1",
    "https://arxiv.org/abs/1606.09375",
)
GROUPS = Source(
    "PyTorch, conv2d: groups",
    "https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.conv2d.html",
)
BMM = Source("PyTorch, torch.bmm", "https://docs.pytorch.org/docs/stable/generated/torch.bmm.html")
POOLING = Source(
    "PyTorch, max_pool2d",
    "https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.max_pool2d.html",
)
NMS = Source(
    "torchvision, nms", "https://docs.pytorch.org/vision/stable/generated/torchvision.ops.nms.html"
)
FOURIER = Source("NeRF, section 5.1: positional encoding", "https://arxiv.org/abs/2003.08934")
ENSEMBLE = Source(
    "PyTorch, Model ensembling", "https://docs.pytorch.org/tutorials/intermediate/ensembling.html"
)
CROPS = Source(
    "DINO, MultiCropWrapper: crops of one size at once",
    "https://github.com/facebookresearch/dino/blob/main/utils.py",
)
GUIDANCE = _issue("Batch unconditional and conditional scores", "microsoft/mattergen/pull/203")
DDIM = Source("Denoising Diffusion Implicit Models", "https://arxiv.org/abs/2010.02502")
BAGS = Source(
    "PyTorch, EmbeddingBag",
    "https://docs.pytorch.org/docs/stable/generated/torch.nn.EmbeddingBag.html",
)
TABLES = _issue(
    "One table for all columns, with offsets", "lucidrains/tab-transformer-pytorch/issues/20"
)
FACTORISATION = Source(
    "Factorization Machines, lemma 3.1: linear time",
    "https://www.csie.ntu.edu.tw/~b97053/paper/Rendle2010FM.pdf",
)
DISPATCH = Source("MegaBlocks, section 2.2: dispatch", "https://arxiv.org/abs/2211.15841")
EXPANDED = Source(
    "PyTorch, Tensor.expand", "https://docs.pytorch.org/docs/stable/generated/torch.Tensor.expand"
)
UNFOLD = Source(
    "PyTorch, Tensor.unfold", "https://docs.pytorch.org/docs/stable/generated/torch.Tensor.unfold"
)
KRON = Source(
    "Kronecker product: matrix equations", "https://en.wikipedia.org/wiki/Kronecker_product"
)
ATTENTIONS = Source(
    "Transformers, Attention backends",
    "https://huggingface.co/docs/transformers/attention_interface",
)
PRUNING = Source(
    "PyTorch, Pruning: remove",
    "https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.prune.remove.html",
)
CHOLESKY = Source(
    "PyTorch, cholesky_solve",
    "https://docs.pytorch.org/docs/stable/generated/torch.cholesky_solve.html",
)
EQUILIBRIA = Source(
    "Deep Implicit Layers, chapter 4: equilibrium models",
    "https://implicit-layers-tutorial.org/deep_equilibrium_models/",
)
ROUTING = Source("Dynamic Routing Between Capsules", "https://arxiv.org/abs/1710.09829")
LINEAR_ATTENTION = Source(
    "Efficient Attention: the order of products", "https://arxiv.org/abs/1812.01243"
)
QR = Source(
    "PyTorch, torch.linalg.qr",
    "https://docs.pytorch.org/docs/stable/generated/torch.linalg.qr.html",
)
HEADS_AT_ONCE = Source(
    "PyTorch, scaled_dot_product_attention",
    "https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html",
)
FLOWS_INVERSE = Source(
    "Masked Autoregressive Flow, section 3.4: against inverse ones",
    "https://arxiv.org/abs/1705.07057",
)
PIXELS_SAMPLED = Source(
    "Fast PixelCNN++: caches for sampling", "https://github.com/PrajitR/fast-pixel-cnn"
)
PUSHED = _issue("Push to the hub without pausing training", "huggingface/open-r1/pull/124")
STREAMED = _issue(
    "Training with a streamed IterableDataset is very slow", "huggingface/transformers/issues/25593"
)
SIZES_KEPT = _issue("Keep the sizes of images", "jwyang/faster-rcnn.pytorch/pull/425")
ANNOTATIONS = _issue("orjson for annotations", "girder/large_image/pull/802")
SMALL_FILES = _issue("Looping over 20,000 small FITS files", "esheldon/fitsio/issues/335")
FINGERPRINT = Source("Datasets, The cache", "https://huggingface.co/docs/datasets/about_cache")
DATASET_SAVED = Source("Datasets, Save", "https://huggingface.co/docs/datasets/process#save")
GEODESICS = _issue("Calculate distances in bulk", "geopy/geopy/issues/189")
FONTS = _issue("Low performance due to font reloading", "amueller/word_cloud/issues/643")
COLOURS = _issue("Color conversion is very slow", "scikit-image/scikit-image/issues/1133")
LANDMARKS = _issue(
    "Extract landmarks once, not during training",
    "vincent-thevenin/Realistic-Neural-Talking-Head-Models/issues/7",
)
SILENCE = _issue("Silence removed in preprocessing", "fastaudio/fastai_audio/pull/13")
REVERB = _issue("Convolution reverb in torch, for GPUs", "pytorch/audio/issues/3049")
RECORDED = Source(
    "Gymnasium, Recording agents", "https://gymnasium.farama.org/introduction/record_agent/"
)
OFFSCREEN = Source(
    "pyrender, Offscreen rendering",
    "https://pyrender.readthedocs.io/en/latest/examples/offscreen.html",
)
NOTEBOOKS = _issue("Progress bars are slow in notebooks", "keras-team/keras/issues/4880")
VISDOM = _issue("Updates of plots slow the training", "fossasia/visdom/issues/89")
CSV_LOGGER = _issue(
    "Avoid rewriting the file in CSVLogger", "Lightning-AI/pytorch-lightning/pull/18567"
)
CHECKPOINTS = _issue("Save checkpoints asynchronously", "huggingface/transformers/issues/23419")
FULL_STATE = _issue(
    "Save shards in place of the full state", "intelligent-machine-learning/dlrover/issues/840"
)
BREAKPOINTS = Source(
    "Python, breakpoint", "https://docs.python.org/3/library/functions.html#breakpoint"
)
FAISS = Source(
    "Faiss on the GPU", "https://github.com/facebookresearch/faiss/wiki/Faiss-on-the-GPU"
)
DALI = Source(
    "DALI, Performance tuning",
    "https://docs.nvidia.com/deeplearning/dali/user-guide/docs/"
    "advanced_topics_performance_tuning.html",
)
CAMERAS = _issue("Slow rendering in pybullet", "bulletphysics/bullet3/issues/1545")
DOK = _issue("Negatives drawn by look-ups of pairs", "guoyang9/NCF/issues/6")
GENERIC_FILTER = _issue("generic_filter slow on large images", "scipy/scipy/issues/8916")
WINDOWS = _issue("Sliding windows as views", "numpy/numpy/pull/17394")
RANDOM_SCALARS = _issue("Large overhead in some random functions", "numpy/numpy/issues/15460")
SCALED = _issue("Defer normalization to the GPU", "talmolab/sleap-nn/pull/406")
FROZEN = _issue("Work on extracted features", "sicara/easy-few-shot-learning/issues/97")
THREADS = _issue("Processes in place of a thread for loading", "BerkeleyAutomation/gqcnn/pull/45")
POOLS = Source(
    "Python, Pool.map: chunksize",
    "https://docs.python.org/3/library/multiprocessing.html#multiprocessing.pool.Pool.map",
)
SHARED_TENSORS = _issue("Targets packed across the loader", "roboflow/rf-detr/pull/1399")
SHARED_MEMORY = Source(
    "PyTorch, Multiprocessing best practices",
    "https://docs.pytorch.org/docs/stable/notes/multiprocessing.html",
)
WORKER_START = _issue("Start of workers with large datasets", "pytorch/pytorch/issues/139792")
META_TENSOR = _issue("Profiling of MetaTensor", "Project-MONAI/MONAI/pull/4223")
DEFAULT_DEVICE = _issue(
    "set_default_device slows down all functions", "pytorch/pytorch/issues/92701"
)
RANDOM_STATE = Source("PyTorch, torch.random", "https://docs.pytorch.org/docs/stable/random.html")
PRESERVED = _issue("preserve_rng_state in checkpointing", "pytorch/torchtitan/issues/1323")
DEVICE_ASKED = _issue("get_device_capability is expensive", "pytorch/pytorch/issues/4908")
SMALL_WEIGHTS = _issue("Optimizers slow with many small weights", "pytorch/pytorch/issues/3929")
PARAM_GROUPS = _issue("Few groups of parameters", "roboflow/rf-detr/pull/1409")
NAMED_TUPLES = Source(
    "Python, namedtuple",
    "https://docs.python.org/3/library/collections.html#collections.namedtuple",
)
PATHS = _issue("Converting all to Path is very slow", "fastai/fastai/pull/1802")
SUBGRAPHS = _issue("k-hop subgraphs are slow to extract", "muhanzhang/SEAL/issues/44")
NEGATIVE_EDGES = Source(
    "PyTorch Geometric, negative_sampling",
    "https://pytorch-geometric.readthedocs.io/en/latest/modules/utils.html",
)
BOARDS = _issue("python-chess with PyTorch", "niklasf/python-chess/issues/885")
SYMBOLS = Source(
    "SymPy, Numeric computation", "https://docs.sympy.org/latest/modules/numeric-computation.html"
)
UNITS = Source(
    "Astropy, Units and quantities: performance tips",
    "https://docs.astropy.org/en/stable/units/index.html",
)
CURVES = Source(
    "scikit-learn, precision_recall_curve",
    "https://scikit-learn.org/stable/modules/generated/sklearn.metrics.precision_recall_curve.html",
)
ENVPOOL = Source("EnvPool", "https://envpool.readthedocs.io/en/latest/")
LABEL_COLOURS = _issue(
    "Colours mapped to classes on the fly", "GeorgeSeif/Semantic-Segmentation-Suite/issues/24"
)
SHAMPOO = _issue("Shampoo is slow in each step", "kozistr/pytorch_optimizer/issues/100")
LAST_TOKEN = _issue("Pluck the last token before lm_head", "karpathy/nanoGPT/issues/42")
MASKED_ONLY = _issue(
    "Sparse prediction: logits of masked tokens alone", "JonasGeiping/cramming/issues/33"
)
PROMPT_LOGITS = _issue("Do not compute the logits of the prompt", "huggingface/trl/pull/2683")
INTERPOLATED = _issue(
    "interpolate with trilinear or bicubic is very slow", "pytorch/pytorch/issues/51206"
)
TRANSMITTANCE = _issue(
    "Transmittance by cumsum in place of cumprod", "nerfstudio-project/nerfacc/issues/138"
)
REFLECTION = _issue("Optimize reflection padding", "pytorch/pytorch/pull/102254")
DEPTHWISE_3D = _issue(
    "3D depthwise convolution very slow on backward pass", "pytorch/pytorch/issues/37406"
)
SMALL_INVERSES = _issue("torch.inverse performs poorly on GPU", "pytorch/pytorch/issues/42265")
RING = _issue("The queue is written at a pointer", "facebookresearch/moco/issues/128")
ACCUMULATED = _issue("index_put with accumulate uses a slow sort", "pytorch/pytorch/pull/171381")
WINDOW_MASK = _issue(
    "The mask is made once for the size of training", "JingyunLiang/SwinIR/issues/35"
)
ALIBI = _issue("Add alibi cache for fixed inputs", "huggingface/transformers/issues/18058")
BUCKETS = _issue("Cache umt5 bias computation", "huggingface/transformers/pull/26150")
NORM_LAYOUT = _issue("LayerNorm in ConvNeXt: copies for the layout", "pytorch/pytorch/issues/76012")
DETACHED = _issue("DCGAN example: netD(fake.detach())", "pytorch/examples/pull/150")
CHAMFER = _issue(
    "Repeated nearest neighbours in the chamfer loss", "facebookresearch/pytorch3d/issues/598"
)
PESQ = _issue("PESQ takes half of the training time", "mhlevgen/DCUNetTorchSound/issues/2")
SURFACES = _issue("The computation of HD95 is rather slow", "MIC-DKFZ/nnUNet/pull/2303")
CONCORDANCE = _issue(
    "The concordance index takes quadratic time", "CamDavidsonPilon/lifelines/issues/139"
)
CAPTIONS = _issue(
    "SPICE keeps all cores busy in each evaluation", "audio-captioning/dcase-2020-baseline/issues/6"
)
FRECHET = _issue("A better way to compute the FID", "Lightning-AI/torchmetrics/issues/1705")
BEAMS = _issue(
    "Decoding too slow, five seconds per utterance",
    "patrickvonplaten/Wav2Vec2_PyCTCDecode/issues/7",
)
STATES_CLONED = _issue(
    "Clone and restore states of environments", "Farama-Foundation/PettingZoo/pull/348"
)
LINE_MEMORY = _issue(
    "The line profiler empties the cache after every line", "Stonesjtu/pytorch_memlab/issues/63"
)
SPELLING = _issue("Correction takes too long for each word", "barrust/pyspellchecker/issues/45")
HOMOLOGY = _issue("Some distance matrices grind Ripser to a halt", "Ripser/ripser/issues/14")
DEEPLAKE = _issue("Poor performance of the loader", "activeloopai/deeplake/issues/1931")
ROTATIONS = _issue(
    "Vectorize the computation of rotation matrices", "ml-struct-bio/cryodrgn/issues/143"
)
RAW = _issue("Speed up loading of raw images", "yurijmikhalevich/rclip/pull/281")
PAGES = _issue("Improve PDF ingestion performance", "AnswerDotAI/byaldi/pull/19")
CHUNKED_LOSS = Source(
    "torchtune, CEWithChunkedOutputLoss",
    "https://pytorch.org/torchtune/stable/generated/torchtune.modules.loss.CEWithChunkedOutputLos"
    "s.html",
)
RMS_NORM = Source(
    "PyTorch, rms_norm",
    "https://docs.pytorch.org/docs/2.8/generated/torch.nn.functional.rms_norm.html",
)
FAKE_QUANTIZE = Source(
    "PyTorch, fake_quantize_per_tensor_affine",
    "https://pytorch.org/docs/1.12/generated/torch.fake_quantize_per_tensor_affine.html",
)
CUMSUM = Source(
    "PyTorch, torch.cumsum",
    "https://docs.pytorch.org/docs/stable/generated/torch.cumsum.html",
)
GRADS_BATCHED = Source(
    "PyTorch forums, is_grads_batched in place of a loop",
    "https://discuss.pytorch.org/t/is-grads-batched/147377",
)
JOINT_BACKWARD = Source(
    "PyTorch forums, joint backward of several losses",
    "https://discuss.pytorch.org/t/multi-task-learning-whats-the-difference-between-jointly-backw"
    "ard-and-backward-with-retain-graph-true/28162",
)
ARGMAX = Source(
    "Most probable class without softmax",
    "https://ai.stackexchange.com/revisions/27698/1",
)
BSS_EVAL = Source(
    "fast_bss_eval, a fast implementation of bss_eval",
    "https://pypi.org/project/fast-bss-eval/",
)
JOINTS = Source(
    "PyBullet Quickstart Guide, getJointState(s)",
    "https://vdocuments.site/pybullet-quickstart-guide.html",
)
BM25 = Source(
    "BM25S, speed over rank_bm25",
    "https://pypi.org/p/bm25s",
)
WARPING = Source(
    "DTAIDistance, the implementation in C",
    "https://pypi.org/project/dtaidistance/",
)
TSFRESH = Source(
    "aeon, TSFresh: efficient features",
    "https://www.aeon-toolkit.org/en/stable/api_reference/auto_generated/aeon.transformations.col"
    "lection.feature_based.TSFresh.html",
)
SNAPSHOTS = Source(
    "torchdata, StatefulDataLoader: snapshot_every_n_steps",
    "https://pytorch.org/data/0.8/torchdata.stateful_dataloader.html",
)
CYCLED = _issue("Memory leak when using itertools.cycle", "pytorch/pytorch/issues/23900")
QUADRATIC = _issue("A solver of quadratic programs in torch", "SimplexLab/TorchJD/pull/332")
RUN_LENGTHS = Source(
    "Encoding and decoding run lengths, timed", "https://github.com/FrankwaP/multiclass-rle"
)
LETTERS = Source(
    "Code Review, improving the speed of one-hot encoding a list of strings",
    "https://codereview.stackexchange.com/questions/278411/improving-the-speed-of-one-hot-"
    "encoding-a-list-of-strings",
)
FOREACH = _issue("Add foreach to optimizers", "facebookresearch/schedule_free/pull/10")
FAST_FORWARD = _issue("Efficiently skip batches", "huggingface/accelerate/pull/1002")
BYTES_COPIED = Source(
    "PyTorch forums, Loading an unsigned 8 bit integer",
    "https://discuss.pytorch.org/t/loading-an-unsigned-8bit-integer/176627",
)
NO_GRAPH = _issue("no_grad in place of detach", "yandexdataschool/Practical_RL/pull/368")
FEDERATED = _issue("Better parameter aggregation for FedAvg", "kitsuyaazuma/blazefl/pull/61")
POPULATION = Source(
    "EvoTorch, populations as batches on the GPU", "https://ar5iv.labs.arxiv.org/html/2302.12600"
)
SURGERY = _issue("Gradients projected one by one are slow", "tianheyu927/PCGrad/issues/4")
CLOSURES = _issue("L-BFGS evaluates the model several times", "pytorch/pytorch/pull/539")
CURVES_AT_ONCE = _issue("Curves by sort and searchsorted", "open-edge-platform/anomalib/pull/3720")
BOOTSTRAP = Source(
    "SciPy, bootstrap in vectorized batches",
    "https://www.simplified.guide/scipy/bootstrap-confidence-interval-compute",
)
RANKED_USERS = _issue("Evaluate all users in batches", "benfred/implicit/pull/520")
MULTI_HOT = Source("PyTorch, multi-hot vectors", "https://taourl.com/read-3786223.html")
REPLACED = Source(
    "Improve performance of replacing multiple strings",
    "https://errorhandle.ai/improve-performance-of-replacing-multiple-strings",
)
CHILDREN = _issue("Faster calculations in the tree search", "werner-duvaud/muzero-general/pull/172")
PINNED = _issue("A tutorial on pin_memory: it blocks", "pytorch/tutorials/pull/2983")
BITS = Source(
    "Convert a bytestring into an array of 1s and 0s: unpackbits",
    "https://devsolus.com/convert-bytestring-into-numpy-array-of-1s-and-0s/",
)
META = _issue("functorch for inner loops", "learnables/learn2learn/issues/331")
GHOSTS = _issue(
    "Fast gradient clipping and ghost clipping in Opacus",
    "pytorch/pytorch.github.io/commit/c1fc8cc299593113809971942aaecc7506396aec",
)
FANCY = Source(
    "NumPy, Assigning values to indexed arrays",
    "https://docs.scipy.org/doc/numpy-1.8.0/user/basics.html",
)
DROPOUT_PASSES = _issue(
    "Monte Carlo dropout without a loop", "torch-uncertainty/torch-uncertainty/pull/49"
)
IN_MEMORY_FILES = _issue("A buffer in memory, no file", "flexcompute/tidy3d/pull/2377")
RETAINED = _issue("Gradients are stored, no second pass", "sdv-dev/CTGAN/issues/37")
COUNTED = Source(
    "NumPy, bincount", "https://numpy.org/doc/stable/reference/generated/numpy.bincount"
)
CALLED_TWICE = _issue("Detach what was computed, not compute it again", "zhenyi4/codi/issues/7")
TURNED_PHOTOS = _issue(
    "Images loaded for their EXIF rotation", "d8ahazard/sd_dreambooth_extension/pull/1442"
)
