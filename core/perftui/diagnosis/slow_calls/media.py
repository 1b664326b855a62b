"""Images, volumes, video and sound, and their augmentation."""

from __future__ import annotations

from perftui.diagnosis.slow_calls import sources
from perftui.diagnosis.slow_calls.row import EACH, SlowCall

ROWS = (
    SlowCall(
        "few-kept",
        "everything is read and decoded here, and the lines below keep only a few of it",
        "choose first, and read, decode or make only those",
        sources.FRAMES_KEPT,
        "*",
        frames="^",
        onward=r"^(\w+)(?: = \[.+ for .+\]|\.append\(.+\))\n"
        r"(?![\s\S]*(?<!len\()\b\1\b(?!\[))[\s\S]*"
        r"\b\1\[(?:\w+\] for \w+ in (?!range\()|[^]\n]*\w:[^]\n]*\w\]|::\w+\])",
        where="item",
    ),
    SlowCall(
        "crop-kept",
        "this is computed for the whole, of which a line below keeps only a crop",
        "crop first, and do this to the crop alone",
        sources.CROP_FIRST,
        "*",
        frames="^",
        onward=r"^(\w+) = (?![^\n]*(?i:resiz|rescal|interpol|rotat|affine|warp|zoom|perspect|"
        r"elastic|pad\(|norm\(|sum|mean|std|\bm(ax|in)|quantile|fft|cum|open|load|read|"
        r"decode|convert))[^\n]*(?<![.\w])\1\b"
        r"[^\n]*\n(?:(?![^\n]*\b\1\b)[^\n]*\n)*"
        r"[^\n]*(?:crop\w*\(\1\b|\b\1\.crop\(|\b\1\[(?:\.\.\., |:, )?[a-z]\w*:[a-z]\w* \+ )",
        where="item",
    ),
    SlowCall(
        "frames-all-decoded",
        "{call} decodes and converts every frame on the way to those that are used",
        "skip frames with grab() and retrieve() only what is used, or decode clips once before "
        "training",
        sources.GRAB,
        "cv2.VideoCapture.read *.read",
        native=True,
        given=r"\.read\(\)$",
        within=r"VideoCapture\(",
        in_loop=True,
        where="item",
    ),
    SlowCall(
        "frames-one-by-one",
        "each frame is fetched by a call of its own",
        "fetch all frames of the clip at once: {it}.get_batch(ids), or get_frames_at(ids)",
        sources.FRAMES_AT,
        "decord.VideoReader.__getitem__ torchcodec.decoders.VideoDecoder.__getitem__ "
        "*.get_frame_at *.get_frame_played_at",
        frames=r"^$|^(decord|torchcodec)/",
        in_loop=True,
        where=EACH,
    ),
    SlowCall(
        "video-scanned",
        "{call} scans the whole file when it is opened, to find its frames exactly",
        "seek_mode='approximate', and keep decoders of files that are read again",
        sources.APPROXIMATE,
        "torchcodec.decoders.VideoDecoder",
        frames=r"^torchcodec/",
        without=r"approximate",
        where=EACH,
    ),
    SlowCall(
        "video-decoded",
        "the frames of a video are decoded one after another, in one thread",
        "stream.thread_type = 'AUTO', seek to the part that is used, and store clips at the size "
        "that is used",
        sources.AV_THREADS,
        "*.decode *.demux",
        frames=r"^$|^av/",
        given=r"\.(decode|demux)\((video=\d|\w*stream\w*|\w*container\w*[^()]*|\w*packet\w*|0)?\)",
        within=r"\bav\.open\(|container",
        where="item",
    ),
    SlowCall(
        "animation-seeked",
        "{call} decodes an animated image from its first frame, or from the last one on",
        "decode each file once, in order, and keep the frames as one array",
        sources.SEEKING,
        "PIL.Image.Image.seek PIL.ImageSequence.Iterator *.seek",
        frames=r"^PIL/(GifImagePlugin|WebPImagePlugin|PngImagePlugin|TiffImagePlugin|ImageSequence)",
        where="item",
        least=0.3,
    ),
    SlowCall(
        "image-read-for-crop",
        "the whole image is decoded for each item, to take a part of it",
        "store tiles of the size that is used, or arrays that can be mapped (zarr, .npy)",
        sources.WHOLE_IMAGES,
        "*.__getitem__ *.crop",
        frames=r"^$|^(skimage|imageio|tifffile|PIL|cv2|matplotlib)/|tifffile",
        given=r"(imread|Image\.open|read_image)\([^\n]*\)(\.convert\([^)]*\))?(\[[^\]]*\w+:|\.crop\()",
        where="item",
    ),
    SlowCall(
        "slide-region",
        "{call} decodes tiles of a slide for each item",
        "cut the regions once before training, at the level that is used, or read a lower level",
        sources.SLIDES,
        "openslide.OpenSlide.read_region *.read_region *.get_thumbnail",
        frames=r"^(openslide|tiffslide|cucim)/|^$",
        given=r"read_region|get_thumbnail",
        where=EACH,
    ),
    SlowCall(
        "small-images-by-pillow",
        "images of a set that lies in memory are made Pillow images and transformed one by one",
        "take the set's arrays (dataset.data, .targets) as tensors, on the device, and normalise "
        "and augment whole batches",
        sources.SMALL_IMAGES,
        frames=r"^PIL/|torchvision/(datasets/(mnist|cifar|svhn|stl10)|transforms/)|> PIL/",
        beside=r"torchvision/datasets/(mnist|cifar|svhn|stl10|usps)\.py",
        where="item",
        least=0.5,
    ),
    SlowCall(
        "volume-resampled",
        "{call} resamples or corrects a whole volume for each item",
        "do what is not random once before training, and store the result",
        sources.VOLUMES,
        "SimpleITK.* *.Execute ants.resample_image nibabel.processing.*",
        frames=r"^$|^(SimpleITK|ants|nibabel)/",
        given=r"Resampl|resampl|N4Bias|Execute\(|Registration|conform\(",
        where=EACH,
    ),
    SlowCall(
        "copied-to-itk",
        "{call} copies the whole volume between NumPy and SimpleITK",
        "crop and pad with tensors or NumPy, and stay in one of the two",
        sources.ITK_COPIES,
        "SimpleITK.GetImageFromArray SimpleITK.GetArrayFromImage",
        frames=r"^$|^SimpleITK/",
        where=EACH,
    ),
    SlowCall(
        "pitch-tracked",
        "{call} estimates the pitch of each item anew",
        "estimate it once before training and store it beside the recordings",
        sources.F0,
        "pyworld.* parselmouth.* amfm_decompy.* crepe.predict torchcrepe.predict librosa.pyin "
        "librosa.yin penn.*",
        frames=r"^$|^(pyworld|parselmouth|amfm_decompy|crepe|torchcrepe|librosa|penn)/",
        where=EACH,
    ),
    SlowCall(
        "mel-basis-made",
        "{call} computes the filter bank anew each time",
        "make it once in __init__ and multiply by it",
        sources.SPECTROGRAMS,
        "librosa.filters.mel torchaudio.functional.melscale_fbanks "
        "torchaudio.functional.create_dct",
        frames=r"^librosa/filters\.py|^torchaudio/functional/\S+ (melscale_fbanks|create_dct)",
        where=EACH,
    ),
    SlowCall(
        "resampling-kernel-made",
        "{call} computes its filter anew for each item",
        "make torchaudio.transforms.Resample(old, new) once in __init__ and call that: it keeps "
        "the filter",
        sources.RESAMPLE_KERNEL,
        "torchaudio.functional.resample",
        frames=r"> \S+ _get_sinc_resample_kernel",
        where=EACH,
    ),
    SlowCall(
        "points-farthest",
        "farthest point sampling goes through all points once for each point that it chooses",
        "choose random points, choose once before training, or use a compiled one "
        "(torch_cluster.fps, pytorch3d.ops.sample_farthest_points)",
        sources.FARTHEST,
        "*",
        frames=r"^$|^numpy/|^torch/",
        within=r"^(@.*\n)*def \w*(farthest|furthest|fps)\w*\(",
        in_loop=True,
        general=True,
    ),
    SlowCall(
        "cloud-prepared",
        "{call} prepares the whole cloud of points for each item",
        "do it once before training and store the result",
        sources.GRAPH_TRANSFORMS,
        "*.estimate_normals *.voxel_down_sample *.remove_statistical_outlier "
        "*.remove_radius_outlier *.farthest_point_down_sample *.segment_plane",
        frames=r"^$|^open3d/",
        where=EACH,
    ),
    SlowCall(
        "mesh-queried",
        "{call} searches all faces of the mesh for each item",
        "sample points and distances once before training and store them",
        sources.MESH_SAMPLES,
        "trimesh.proximity.* trimesh.sample.* *.contains *.signed_distance *.closest_point "
        "trimesh.ray.*",
        frames=r"^(trimesh/(proximity|ray|triangles|sample|base|parent)|rtree|mesh_to_sdf)",
        where=EACH,
    ),
    SlowCall(
        "pixels-in-python",
        "{call} visits single pixels in Python",
        "work on np.asarray(image), all pixels at once",
        sources.PIXELS,
        "PIL.Image.Image.getpixel PIL.Image.Image.putpixel PIL.Image.Image.getdata "
        "PIL.Image.Image.putdata *.getpixel *.putpixel",
        frames=r"^PIL/|^$",
    ),
    SlowCall(
        "resized-by-lanczos",
        "{call} uses a slow filter, on the whole image",
        "crop first, or decode smaller (Image.draft, reducing_gap=2.0), and use BILINEAR",
        sources.DRAFT,
        "PIL.Image.Image.resize PIL.Image.Image.thumbnail",
        given=r"LANCZOS|ANTIALIAS|BICUBIC",
        without=r"reducing_gap",
        where="item",
    ),
    SlowCall(
        "resized-image",
        "{call} scales a whole image for each item",
        "store images at that size, decode smaller (Image.draft before load), or pass reducing_gap",
        sources.DRAFT,
        "PIL.Image.Image.resize PIL.Image.Image.thumbnail PIL.ImageOps.fit PIL.ImageOps.pad",
        frames=r"^PIL/Image\.py:\d+ (Image\.)?(resize|thumbnail|reduce)",
        where="item",
        least=0.5,
    ),
    SlowCall(
        "png-decoded",
        "PNG files are decompressed for each item",
        "store JPEG, WebP or raw arrays, at the size that is used",
        sources.DRAFT,
        frames=r"^PIL/PngImagePlugin\.py",
        where="item",
        least=0.3,
    ),
    SlowCall(
        "image-decoded",
        "each image is decoded at its full size by Pillow",
        "store smaller images, call draft('RGB', size) before loading, or use torchvision.io or "
        "nvJPEG",
        sources.DRAFT,
        frames=r"^PIL/(ImageFile|JpegImagePlugin|WebPImagePlugin|TiffImagePlugin)\.py",
        where="item",
    ),
    SlowCall(
        "image-rotated",
        "{call} computes each pixel anew on the CPU",
        "rotate the whole batch on the device (grid_sample, kornia), or use right angles",
        sources.RESIZE,
        "PIL.Image.Image.rotate PIL.Image.Image.transform PIL.ImageOps.deform",
        where="item",
    ),
    SlowCall(
        "image-filtered",
        "{call} filters on the CPU for each item",
        "filter the batch on the device (torchvision.transforms.v2 takes batches)",
        sources.RESIZE,
        "PIL.Image.Image.filter PIL.ImageEnhance.* PIL.ImageFilter.*",
        where="item",
    ),
    SlowCall(
        "image-saved",
        "{call} compresses an image in the step",
        "save every N steps, or in a thread",
        sources.FIGURES,
        "PIL.Image.Image.save cv2.imwrite imageio.imwrite imageio.imsave skimage.io.imsave "
        "torchvision.utils.save_image torchvision.io.write_png torchvision.io.write_video",
        frames=r"^(PIL|imageio|skimage|torchvision)/|^$",
        where="step evaluation",
    ),
    SlowCall(
        "cv2-read",
        "{call} decodes a whole image for each item",
        "store smaller images, or decode smaller (cv2.IMREAD_REDUCED_COLOR_2)",
        sources.DRAFT,
        "cv2.imread cv2.imdecode",
        native=True,
        where="item",
    ),
    SlowCall(
        "cv2-heavy",
        "{call} filters each image on the CPU",
        "prepare the images once before training, or use a cheaper filter",
        sources.OPENCV_THREADS,
        "cv2.fastNlMeansDenoising* cv2.bilateralFilter cv2.grabCut cv2.calcOpticalFlowFarneback "
        "cv2.inpaint cv2.connectedComponents* cv2.createCLAHE cv2.medianBlur cv2.GaussianBlur",
        native=True,
        where=EACH,
    ),
    SlowCall(
        "cv2-warped",
        "{call} computes each pixel of each image on the CPU",
        "warp the batch on the device (grid_sample, kornia); with workers, cv2.setNumThreads(0)",
        sources.OPENCV_THREADS,
        "cv2.warpAffine cv2.warpPerspective cv2.remap cv2.resize cv2.undistort",
        native=True,
        where="item",
    ),
    SlowCall(
        "video-seek",
        "{call} decodes from the last key frame to find a frame, each time",
        "extract frames or clips once, read neighbours in order, or make key frames closer",
        sources.SEEKING,
        "cv2.VideoCapture cv2.VideoCapture.set cv2.VideoCapture.read decord.VideoReader "
        "decord.VideoReader.__getitem__ decord.VideoReader.get_batch *.get_batch",
        frames=r"^$|^decord/",
        where=EACH,
    ),
    SlowCall(
        "video-read",
        "{call} decodes a whole video for each item",
        "cut the videos into clips once, at the size that is used, or decode on the GPU",
        sources.SEEKING,
        "torchvision.io.read_video imageio.get_reader imageio.mimread av.open pims.Video "
        "torchvision.io.VideoReader moviepy.editor.VideoFileClip",
        frames=r"^(torchvision|imageio|av|moviepy|pims)/|^$",
        where=EACH,
    ),
    SlowCall(
        "to-pil-and-back",
        "{call} copies a tensor into a Pillow image, and later back",
        "use torchvision.transforms.v2 on tensors all the way",
        sources.TUNING,
        "torchvision.transforms.ToPILImage* torchvision.transforms.functional.to_pil_image "
        "PIL.Image.fromarray",
        frames=r"to_pil_image|ToPILImage|PIL/Image\.py:\d+ (fromarray|frombuffer|frombytes)",
        where="item",
    ),
    SlowCall(
        "transforms-made-each-time",
        "{call} builds the transforms anew each time",
        "build them once in __init__",
        sources.OPENED_EACH_ITEM,
        "torchvision.transforms.Compose torchaudio.transforms.MelSpectrogram "
        "torchaudio.transforms.Resample torchaudio.transforms.MFCC "
        "torchaudio.transforms.Spectrogram albumentations.Compose",
        frames=r"__init__|create_fb|melscale_fbanks|_get_sinc_resample_kernel",
        where=EACH,
        least=0.3,
    ),
    SlowCall(
        "sound-resampled",
        "each file is resampled when it is read",
        "resample the files once before training, or whole batches on the device",
        sources.RESAMPLERS,
        "torchaudio.functional.resample torchaudio.transforms.Resample*",
        frames=r"torchaudio/functional/\S+ _?(resample|apply_sinc|get_sinc)|_sinc_resample",
        where="item",
        least=0.3,
    ),
    SlowCall(
        "pitch-shifted",
        "{call} changes pitch or speed with a phase vocoder, for each item",
        "prepare some versions of each file before training, apply it to few items, or to "
        "the batch on the device (torch-audiomentations)",
        sources.PITCH,
        "librosa.effects.pitch_shift librosa.effects.time_stretch "
        "torchaudio.functional.pitch_shift torchaudio.functional.phase_vocoder "
        "torchaudio.transforms.PitchShift.* torchaudio.transforms.TimeStretch.* "
        "pyrubberband.*",
        frames=r"pitch_shift|phase_vocoder|time_stretch|PitchShift|TimeStretch|^pyrubberband/",
    ),
    SlowCall(
        "audio-augmented",
        "augmentations of sound run on the CPU for each item",
        "apply them to the whole batch on the device (torch-audiomentations), or prepare "
        "versions before training",
        sources.AUDIO_SPEED,
        frames=r"^(audiomentations|nlpaug|augly|pedalboard|pyroomacoustics)/|torchaudio/(sox_effects|"
        r"io)/",
        where="item",
        least=0.5,
    ),
    SlowCall(
        "sound-decoded",
        "{call} decodes a whole file for each item",
        "read only the part that is used (frame_offset, num_frames), or store PCM",
        sources.RESAMPLING,
        "torchaudio.load soundfile.read audioread.audio_open pydub.AudioSegment.from_file",
        frames=r"^(torchaudio|soundfile|audioread|pydub)|soundfile\.py",
        where="item",
        without=r"num_frames|frames=",
    ),
    SlowCall(
        "spectrogram-per-item",
        "spectrograms are computed on the CPU, sample by sample",
        "compute them on the device for the whole batch, or once before training",
        sources.RESAMPLERS,
        frames=r"torchaudio/functional/functional\.py|torchaudio/transforms/",
        where="item",
        least=0.5,
    ),
    SlowCall(
        "elastic-transform",
        "elastic and perspective transforms compute a grid for each image on the CPU",
        "apply them to the whole batch on the device, or to fewer images",
        sources.RESIZE,
        frames=r"elastic|perspective|ElasticTransform|GridDistortion",
        where="item",
    ),
    SlowCall(
        "augmented-by-imgaug",
        "imgaug draws its parameters in Python for each image",
        "use albumentations, or torchvision.transforms.v2 on batches",
        sources.OPENCV_THREADS,
        frames=r"^imgaug/",
        where="item",
        least=0.5,
    ),
    SlowCall(
        "colour-jitter",
        "changing the hue converts each image to HSV and back",
        "leave hue out of ColorJitter, apply it to fewer images, or to the batch on the "
        "device (torchvision.transforms.v2, kornia)",
        sources.HUE,
        frames=r"adjust_hue|_rgb2hsv|_rgb_to_hsv|_hsv2rgb|_hsv_to_rgb",
        where="item",
        least=0.3,
    ),
    SlowCall(
        "blurred-per-item",
        "blurs and sharpening filter each image on the CPU",
        "a smaller kernel, fewer images, or the batch on the device "
        "(torchvision.transforms.v2, kornia)",
        sources.HUE,
        frames=r"gaussian_blur|GaussianBlur|adjust_sharpness|_blurred_degenerate_image",
        where="item",
        least=0.4,
    ),
    SlowCall(
        "auto-augmented",
        "AutoAugment and its like apply several operations to each image on the CPU",
        "fewer operations (TrivialAugmentWide), tensors of uint8 instead of Pillow images, "
        "or the batch on the device",
        sources.HUE,
        frames=r"torchvision/transforms/(v2/_auto_augment|autoaugment)\.py|timm/data/auto_augment\.py",
        where="item",
        least=0.4,
    ),
    SlowCall(
        "albumentations",
        "augmentations run on the CPU for each image, with checks and copies for each",
        "crop before other transforms, resize once before training, cv2.setNumThreads(0) "
        "with workers, or the batch on the device (kornia, torchvision.transforms.v2)",
        sources.OPENCV_THREADS,
        frames=r"^(albumentations|albucore)/",
        where="item",
        least=0.5,
    ),
    SlowCall(
        "to-tensor",
        "{call} copies each image into a float tensor, four times as large as its bytes",
        "keep uint8 (torchvision.transforms.v2.PILToTensor, torch.from_numpy) and convert "
        "the whole batch on the device",
        sources.TUNING,
        "torchvision.transforms.functional.to_tensor torchvision.transforms.ToTensor.* *.to_tensor",
        frames=r"torchvision/transforms/functional\.py\S* to_tensor|ToTensor",
        where="item",
    ),
    SlowCall(
        "transforms-of-pillow",
        "transforms are applied to Pillow images, one by one",
        "decode to tensors and use torchvision.transforms.v2 on uint8, or on batches on the device",
        sources.TUNING,
        frames=r"torchvision/transforms/_functional_pil\.py|^PIL/Image(Enhance|Ops|Filter)?\.py",
        where="item",
        least=0.5,
    ),
    SlowCall(
        "skimage-transform",
        "{call} works in float64, with splines and anti-aliasing, on the CPU",
        "cv2.resize, or torch.nn.functional.interpolate on the batch",
        sources.RESIZE,
        "skimage.transform.* skimage.filters.* skimage.morphology.* skimage.exposure.* "
        "skimage.segmentation.*",
        frames=r"^skimage/|^scipy/ndimage/",
    ),
    SlowCall(
        "skimage-read",
        "{call} decodes a whole image for each item, through several layers of Python",
        "store smaller images or arrays, or use torchvision.io.decode_image or cv2.imread",
        sources.DRAFT,
        "skimage.io.imread imageio.imread imageio.v2.imread imageio.v3.imread "
        "matplotlib.pyplot.imread tifffile.imread",
        frames=r"^(skimage|imageio|matplotlib|tifffile|PIL)[/.]|tifffile",
        where="item",
    ),
    SlowCall(
        "volume-decompressed",
        "{call} decompresses a whole volume for each item",
        "store .nii, .npy or patches, uncompressed, and map them (dataobj, mmap_mode='r')",
        sources.NIFTI,
        "nibabel.load nibabel.Nifti1Image.get_fdata *.get_fdata *.dataobj",
        frames=r"^nibabel/|/gzip\.py",
        where=EACH,
    ),
    SlowCall(
        "medical-image-read",
        "{call} parses and decodes a file for each item",
        "convert once to .npy of the size that is used, and map it",
        sources.WHY_NPY,
        "SimpleITK.ReadImage SimpleITK.GetArrayFromImage pydicom.dcmread pydicom.read_file "
        "*.pixel_array openslide.OpenSlide",
        frames=r"^(SimpleITK|pydicom|openslide|rasterio)/|^$",
        where=EACH,
        least=0.5,
    ),
    SlowCall(
        "monai-volume",
        "transforms of volumes run on the CPU for each item",
        "cache what is not random (CacheDataset, PersistentDataset), and transform on the device",
        sources.SPLINES,
        frames=r"^(monai|batchgenerators|torchio)/",
        where="item",
        least=0.5,
    ),
    SlowCall(
        "masks-decoded",
        "{call} draws or unpacks masks for each item",
        "decode once and store them (PNG with class indices, or packed bits), or keep "
        "polygons and draw at the size that is used",
        sources.MASKS_DECODED,
        "pycocotools.mask.decode pycocotools.mask.frPyObjects *.annToMask *.annToRLE "
        "PIL.ImageDraw.Draw.* PIL.ImageDraw.Draw cv2.fillPoly cv2.drawContours "
        "skimage.draw.* *.polygon",
        frames=r"^(pycocotools|skimage/draw|PIL/ImageDraw)|^$",
        where="item",
    ),
    SlowCall(
        "boxes-parsed",
        "annotations of COCO are searched and parsed for each item",
        "make arrays of boxes and classes by image once in __init__",
        sources.MASKS_DECODED,
        frames=r"^pycocotools/coco\.py",
        where="item",
        least=0.3,
    ),
    SlowCall(
        "filtered-recursively",
        "{call} computes one sample of the signal after another",
        "scipy.signal.lfilter on the CPU once before training, or a convolution with the "
        "truncated response",
        sources.LFILTER,
        "torchaudio.functional.* torchaudio.transforms.*",
        frames=r"torchaudio/functional/filtering\.py\S* \S*(lfilter|biquad|filtfilt|_core_loop|"
        r"LFilter)",
    ),
    SlowCall(
        "sound-inverted",
        "{call} estimates phases with many transforms back and forth",
        "do it every few hundred steps for a few samples, with fewer iterations, or use a vocoder",
        sources.PITCH,
        "librosa.griffinlim librosa.feature.inverse.* torchaudio.functional.griffinlim "
        "torchaudio.transforms.GriffinLim.* torchaudio.transforms.InverseMelScale.*",
        frames=r"griffinlim|GriffinLim|InverseMelScale|feature/inverse",
    ),
    SlowCall(
        "midi-parsed",
        "{call} parses a file of notes in Python for each item",
        "parse all files once and store arrays of events",
        sources.PRETOKENIZED,
        "pretty_midi.PrettyMIDI mido.MidiFile miditoolkit.MidiFile music21.converter.parse "
        "*.get_piano_roll",
        frames=r"^(pretty_midi|mido|miditoolkit|music21|miditok)/",
        where=EACH,
    ),
    SlowCall(
        "mesh-loaded",
        "{call} parses and checks a mesh or cloud of points for each item",
        "convert once to arrays of points and faces, and map them; sample points once before "
        "training",
        sources.GRAPH_TRANSFORMS,
        "trimesh.load open3d.io.* plyfile.PlyData.read laspy.read pyvista.read "
        "trimesh.sample.* *.sample_points_uniformly",
        frames=r"^(trimesh|open3d|plyfile|laspy|pyvista|meshio)/|^$",
        where=EACH,
    ),
    SlowCall(
        "raster-window",
        "{call} reads and decodes blocks of a raster for each item",
        "keep the file open per worker, make windows equal its blocks, or convert once to "
        "arrays that can be mapped",
        sources.HDF5_OPENING,
        "rasterio.io.DatasetReader.read *.read_band *.ReadAsArray rasterio.windows.* "
        "rasterio.warp.*",
        frames=r"^(rasterio|osgeo)/",
        where="item",
    ),
    SlowCall(
        "images-scored",
        "{call} runs a network, or filters, over images to compare them at each step",
        "score every N steps or epochs, a few smaller images; as a loss, every few steps or "
        "on crops",
        sources.IMAGE_SCORES,
        "lpips.LPIPS.* pytorch_fid.* pytorch_msssim.* piq.* skimage.metrics.* "
        "torchmetrics.image.* *.structural_similarity",
        frames=r"^(lpips|pytorch_fid|cleanfid|pytorch_msssim|piq|skimage/metrics|"
        r"torchmetrics/(functional/)?image)/",
    ),
)
