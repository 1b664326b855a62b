"""Data frames, Arrow tables and arrays of files: pandas, polars, datasets, zarr, xarray."""

from __future__ import annotations

from perftui.diagnosis.slow_calls import sources
from perftui.diagnosis.slow_calls.row import EACH, SlowCall

ROWS = (
    SlowCall(
        "function-hashed",
        "the function and all that it refers to are pickled and hashed, to look its result up in "
        "the cache",
        "keep large objects out of it (give it a path, and load them inside), or pass "
        "new_fingerprint=",
        sources.FINGERPRINT,
        frames=r"^datasets/\S+ \S+ > (datasets/(fingerprint|utils/_dill)\.py|dill/|.*/pickle\.py)",
        least=0.4,
    ),
    SlowCall(
        "formatted-by-value",
        "the format of the dataset makes a tensor or array of each value by itself, in Python",
        "fetch whole batches, give columns fixed shapes (Features with Array2D, or "
        "Sequence(length=...)), or take with_format('numpy') and torch.from_numpy",
        sources.ARROW_ITEMS,
        frames=r"datasets/formatting/(torch|np|tf|jax)_formatter\.py",
        where=EACH,
        least=0.3,
    ),
    SlowCall(
        "dataset-built",
        "{call} converts all rows to Arrow in every run",
        "do it once, keep the result with save_to_disk, and load that with load_from_disk",
        sources.DATASET_SAVED,
        "datasets.Dataset.from_list datasets.Dataset.from_dict datasets.Dataset.from_pandas",
        frames=r"^(datasets|pyarrow)/",
        where="start",
    ),
    SlowCall(
        "geodesic-one-by-one",
        "{call} works out one distance on the ellipsoid at a time, in Python",
        "use the haversine formula on whole arrays or tensors, or pyproj.Geod(ellps='WGS84').inv "
        "on arrays",
        sources.GEODESICS,
        "geopy.distance.*",
        frames=r"^(geopy|geographiclib)/",
    ),
    SlowCall(
        "table-at-start",
        "{call} parses the whole table in every run",
        "store it once as Parquet or Feather and read the columns that are used, or save arrays",
        sources.TABLE_FORMATS,
        "pandas.read_csv pandas.read_table pandas.read_json pandas.read_excel",
        where="start",
    ),
    SlowCall(
        "frame-encoded",
        "{call} looks for the categories or limits of all values each time",
        "encode the column once before training and keep an array of whole numbers",
        sources.FRAME_LOOPS,
        "pandas.factorize pandas.Categorical pandas.cut pandas.qcut pandas.crosstab",
        frames=r"^pandas/",
        where=EACH,
    ),
    SlowCall(
        "multi-index",
        "a MultiIndex looks each key up in Python, and scans if it is not sorted",
        "call sort_index() once, or make a dict from key to row numbers once (.indices of a "
        "groupby)",
        sources.LEXSORT,
        frames=r"^pandas/core/indexes/multi\.py",
        least=0.3,
    ),
    SlowCall(
        "dates-ranged",
        "{call} makes an index of dates each time",
        "make it once before training, and keep what is computed of it (hour, weekday) as an array",
        sources.FRAME_LOOPS,
        "pandas.date_range pandas.period_range pandas.bdate_range",
        frames=r"^pandas/",
        where=EACH,
    ),
    SlowCall(
        "polars-indexed",
        "each row that is taken out of a polars table goes through checks in Python",
        "make arrays of the columns once (.to_numpy(), .to_torch()) and index those",
        sources.POLARS_ROWS,
        "polars.DataFrame.__getitem__ polars.Series.__getitem__ *.__getitem__",
        frames=r"^polars/",
        where=EACH,
    ),
    SlowCall(
        "zarr-scattered",
        "{call} selects index by index, and decompresses the chunk of each",
        "read a run of rows that holds them, or sort samples so that a batch lies in few chunks",
        sources.ZARR_CHUNKS,
        "*.oindex *.vindex *.get_orthogonal_selection *.get_coordinate_selection "
        "*.get_mask_selection",
        frames=r"^(zarr|numcodecs)/",
        where=EACH,
    ),
    SlowCall(
        "projection-made",
        "{call} looks definitions up and builds a projection each time",
        "make it once in __init__ and keep it; transform arrays of points in one call",
        sources.PROJECTIONS,
        "pyproj.Transformer.from_crs pyproj.Transformer.* pyproj.transformer.Transformer.from_crs "
        "pyproj.CRS* pyproj.Proj pyproj.transform *.from_crs",
        frames=r"^pyproj/",
        given=r"from_crs|from_proj|from_pipeline|CRS|Proj\(|pyproj\.transform\(",
        where=EACH,
    ),
    SlowCall(
        "geometries-searched",
        "{call} compares geometries with all others in each item",
        "use a shapely.STRtree made once, or the joins computed once before training",
        sources.STRTREE,
        "geopandas.clip geopandas.sjoin geopandas.overlay *.sjoin *.clip *.contains *.within "
        "*.intersects *.overlay",
        frames=r"^(geopandas|shapely)/",
        where="item",
    ),
    SlowCall(
        "structure-opened",
        "{call} parses a structure or seeks in a trajectory for each item",
        "read all once before training and store arrays of coordinates",
        sources.OPENED_EACH_ITEM,
        "Bio.PDB.* *.get_structure mdtraj.load* MDAnalysis.Universe prody.parsePDB biotite.*",
        frames=r"^(Bio/PDB|mdtraj|MDAnalysis|prody|biotite)/",
        where=EACH,
    ),
    SlowCall(
        "frame-row-added",
        "each row added by .loc copies or checks the whole frame",
        "append dicts to a list and make one DataFrame at the end",
        sources.APPENDING,
        frames=r"^pandas/core/indexing\.py:\d+ \S*(_setitem_with_indexer|_setitem_\w+)",
        least=0.5,
    ),
    SlowCall(
        "frame-row-used",
        "{it} is taken out of a DataFrame row by row, as a Series of objects, and each index into "
        "it goes through Python",
        "make arrays of the columns once in __init__ (frame[columns].to_numpy()) and index those",
        sources.FRAME_ROWS,
        "pandas.Series.__getitem__ *.__getitem__",
        frames=r"^pandas/core/",
        given=r"^\w+\[",
        within=r"\b(\w+) = [\w.]+\.i?loc\[[^:\n]*\]\n[\s\S]*\b\1\[",
        where="item",
    ),
    SlowCall(
        "frame-values",
        "{call} of columns of several types copies the whole table into an array of objects",
        "make the array once in __init__, of columns of one type",
        sources.FRAME_ROWS,
        "pandas.DataFrame.values pandas.DataFrame.to_numpy pandas.DataFrame.to_records "
        "pandas.DataFrame.to_dict",
        frames=r"^pandas/",
        where=EACH,
    ),
    SlowCall(
        "frame-row",
        "each row that is taken out of a DataFrame becomes a new Series, with all its checks",
        "make arrays of the columns once in __init__ ({it}.to_numpy(), or a list of paths) and "
        "index those",
        sources.FRAME_ROWS,
        "pandas.DataFrame.iloc pandas.DataFrame.loc pandas.DataFrame.iat pandas.DataFrame.at "
        "pandas.Series.iloc pandas.Series.loc pandas.DataFrame.xs pandas.DataFrame.take",
        frames=r"^pandas/",
    ),
    SlowCall(
        "frame-iterated",
        "{call} makes a Series of each row",
        "work on whole columns, or iterate over zip(*(df[c].to_numpy() for c in columns))",
        sources.FRAME_LOOPS,
        "pandas.DataFrame.iterrows pandas.DataFrame.itertuples pandas.DataFrame.items "
        "pandas.Series.items",
    ),
    SlowCall(
        "frame-applied",
        "{call} calls a Python function for each row or value",
        "use operators on whole columns, or map over .to_numpy() once before training",
        sources.FRAME_LOOPS,
        "pandas.DataFrame.apply pandas.Series.apply pandas.DataFrame.applymap pandas.Series.map "
        "pandas.DataFrame.map pandas.DataFrame.transform pandas.DataFrame.agg",
        frames=r"^pandas/",
        where=EACH,
    ),
    SlowCall(
        "frame-grown",
        "{call} copies the whole frame each time",
        "append dicts to a list and make one DataFrame at the end",
        sources.APPENDING,
        "pandas.concat pandas.DataFrame.append pandas.DataFrame._append",
        grown=True,
    ),
    SlowCall(
        "frame-parsed",
        "{call} parses the whole file each time",
        "read it once in __init__, and keep its columns as arrays or tensors",
        sources.OPENED_EACH_ITEM,
        "pandas.read_csv pandas.read_table pandas.read_excel pandas.read_json pandas.read_hdf "
        "pandas.read_pickle pandas.read_sql pandas.read_fwf pandas.read_xml pandas.read_sas "
        "pandas.read_stata pandas.read_orc",
        where=EACH,
    ),
    SlowCall(
        "row-group-read",
        "{call} decodes a whole row group for each item",
        "read a row group once and take all its samples, in shuffled order of groups, or "
        "write smaller groups",
        sources.ARROW_READS,
        "pyarrow.parquet.ParquetFile.read_row_group *.read_row_group *.read_row_groups "
        "*.iter_batches",
        frames=r"^pyarrow/",
        where="item",
    ),
    SlowCall(
        "parquet-read",
        "{call} opens and decodes a file of columns each time",
        "read row groups in order, or convert once to arrays that can be mapped",
        sources.OPENED_EACH_ITEM,
        "pandas.read_parquet pandas.read_feather pyarrow.parquet.read_table "
        "pyarrow.parquet.ParquetFile polars.read_parquet pyarrow.feather.read_table",
        frames=r"^(pandas|pyarrow|polars)/",
        where=EACH,
    ),
    SlowCall(
        "frame-written",
        "{call} writes the whole frame out in the step",
        "write it once in an epoch, or append to a list and write that",
        sources.TRACKER_FILES,
        "pandas.DataFrame.to_csv pandas.DataFrame.to_json pandas.DataFrame.to_parquet "
        "pandas.DataFrame.to_pickle pandas.DataFrame.to_excel pandas.Series.to_csv "
        "pandas.DataFrame.to_sql pandas.DataFrame.to_hdf pandas.DataFrame.to_feather "
        "pandas.DataFrame.to_html pandas.DataFrame.to_markdown",
        where="step evaluation",
    ),
    SlowCall(
        "frame-searched",
        "a condition on a column goes through the whole table for each item",
        "group or index it once in __init__: a dict from key to row numbers",
        sources.FRAME_ROWS,
        "pandas.DataFrame.query pandas.DataFrame.__getitem__ pandas.DataFrame.isin "
        "pandas.Series.__eq__ pandas.Series.isin",
        frames=r"^pandas/",
        given=r"==|query|isin|!=|[<>]",
        where="item",
    ),
    SlowCall(
        "frame-grouped",
        "{call} groups or joins the whole table each time",
        "do it once before training and keep the result",
        sources.FRAME_LOOPS,
        "pandas.DataFrame.groupby pandas.DataFrame.merge pandas.merge pandas.DataFrame.join "
        "pandas.DataFrame.pivot_table pandas.DataFrame.sort_values pandas.DataFrame.get_group "
        "*.get_group pandas.Series.value_counts pandas.DataFrame.drop_duplicates",
        frames=r"^pandas/",
        where=EACH,
    ),
    SlowCall(
        "frame-sampled",
        "{call} shuffles the table to draw from it",
        "draw indices with torch.randint and index a tensor",
        sources.WITHOUT_REPLACEMENT,
        "pandas.DataFrame.sample pandas.Series.sample",
        where="step item",
    ),
    SlowCall(
        "frame-made",
        "{call} builds an index and columns each time",
        "keep numbers in tensors or a list, and make a DataFrame at the end",
        sources.FRAME_LOOPS,
        "pandas.DataFrame pandas.Series pandas.DataFrame.from_dict pandas.DataFrame.from_records",
        where="step evaluation item",
    ),
    SlowCall(
        "frame-copied",
        "{call} copies or rebuilds the whole table each time",
        "do it once before training",
        sources.FRAME_LOOPS,
        "pandas.DataFrame.copy pandas.DataFrame.drop pandas.DataFrame.fillna "
        "pandas.DataFrame.reset_index pandas.DataFrame.set_index pandas.DataFrame.rename "
        "pandas.DataFrame.astype pandas.DataFrame.dropna pandas.get_dummies "
        "pandas.DataFrame.explode pandas.DataFrame.melt pandas.DataFrame.stack "
        "pandas.DataFrame.unstack pandas.DataFrame.interpolate pandas.DataFrame.ffill "
        "pandas.DataFrame.bfill pandas.DataFrame.assign pandas.DataFrame.reindex",
        frames=r"^pandas/",
        where=EACH,
    ),
    SlowCall(
        "series-indexed",
        "each element taken out of a Series goes through its index in Python",
        "index {it}.to_numpy(), or a list of it, made once",
        sources.FRAME_ROWS,
        "pandas.Series.__getitem__ pandas.DataFrame.__getitem__",
        frames=r"^pandas/core/(series|frame)\.py",
        where="item",
    ),
    SlowCall(
        "frame-text",
        "text methods of pandas go through the column row by row in Python",
        "prepare the column once before training",
        sources.FRAME_LOOPS,
        frames=r"^pandas/core/strings/",
        least=0.5,
    ),
    SlowCall(
        "frame-rolling",
        "{call} computes a moving window over the whole table each time",
        "do it once before training, and keep an array",
        sources.FRAME_LOOPS,
        "pandas.DataFrame.rolling pandas.Series.rolling pandas.DataFrame.ewm "
        "pandas.Series.ewm pandas.DataFrame.resample pandas.Series.resample *.rolling *.ewm",
        frames=r"^pandas/core/(window|resample)",
        where=EACH,
    ),
    SlowCall(
        "pandas-in-step",
        "pandas checks and wraps each small operation in Python",
        "make arrays or tensors of the columns once, before the loop",
        sources.FRAME_LOOPS,
        frames=r"^pandas/",
        least=0.8,
    ),
    SlowCall(
        "polars-per-item",
        "{call} plans and runs a query over the whole table for each item",
        "make arrays of the columns once (.to_numpy(), .to_torch()), and a dict from key to "
        "row numbers",
        sources.FRAME_LOOPS,
        "polars.DataFrame.filter polars.LazyFrame.collect polars.scan_parquet "
        "polars.DataFrame.to_dicts *.collect *.to_dicts *.filter",
        frames=r"^polars/",
        where="item",
    ),
    SlowCall(
        "polars-row",
        "{call} builds Python objects of each row",
        "take whole columns with .to_numpy() or .to_torch() once",
        sources.FRAME_LOOPS,
        "polars.DataFrame.iter_rows polars.DataFrame.row polars.DataFrame.rows "
        "polars.DataFrame.map_rows polars.Series.map_elements polars.Expr.map_elements",
    ),
    SlowCall(
        "arrow-to-objects",
        "{call} makes a Python object of each value",
        "use .to_numpy(zero_copy_only=False), or a formatted dataset",
        sources.ARROW_ITEMS,
        "pyarrow.Table.to_pylist pyarrow.Array.to_pylist pyarrow.ChunkedArray.to_pylist "
        "pyarrow.Table.to_pydict pyarrow.Scalar.as_py *.to_pylist *.to_pydict *.as_py",
        native=True,
    ),
    SlowCall(
        "dataset-column",
        "{call} by a column reads the whole column, to take one element",
        "index the row first: dataset[i]['name']",
        sources.ARROW_ITEMS,
        "datasets.Dataset.__getitem__",
        frames=r"^datasets/",
        given=r"\[['\"][^]]+['\"]\]\[",
        where=EACH,
    ),
    SlowCall(
        "dataset-item",
        "each item of a datasets.Dataset is decoded from Arrow into Python objects",
        "fetch batches (it has __getitems__), with_format('numpy') or 'torch', and flatten_indices "
        "after select or shuffle",
        sources.ARROW_ITEMS,
        "datasets.Dataset.__getitem__",
        frames=r"^datasets/(arrow_dataset|formatting/\S+|table|features/\S+)\.py",
        where=EACH,
    ),
    SlowCall(
        "dataset-decoded",
        "items of a datasets.Dataset are decoded one by one, from Arrow into Python objects",
        "call with_format('numpy') or 'torch', decode images once, or keep the columns as tensors",
        sources.ARROW_READS,
        frames=r"^datasets/(formatting|features|arrow_dataset|table)",
        where="item",
        least=0.5,
    ),
    SlowCall(
        "dataset-selected",
        "{call} makes a new dataset for each item or step",
        "index the dataset itself, with a list of rows for a batch",
        sources.ARROW_ITEMS,
        "datasets.Dataset.select datasets.Dataset.with_format datasets.Dataset.set_format "
        "datasets.Dataset.to_pandas datasets.Dataset.add_column "
        "datasets.Dataset.remove_columns",
        frames=r"^datasets/",
        where=EACH,
    ),
    SlowCall(
        "dataset-mapped",
        "{call} goes through the whole dataset, row by row, each time",
        "map once before training, with batched=True, and keep the cache",
        sources.TOKENIZER,
        "datasets.Dataset.map datasets.Dataset.filter datasets.DatasetDict.map "
        "datasets.Dataset.select datasets.Dataset.shuffle datasets.Dataset.sort",
        frames=r"^(datasets|multiprocess|dill)/",
    ),
    SlowCall(
        "zarr-opened",
        "{call} reads the metadata of the store each time",
        "open it once per worker and keep the array in self, with consolidated metadata",
        sources.HDF5_OPENING,
        "zarr.open zarr.open_group zarr.open_array zarr.open_consolidated",
        where=EACH,
    ),
    SlowCall(
        "zarr-read",
        "each index reads and decompresses whole chunks",
        "make chunks as large as a sample, or read a whole batch of neighbours at once",
        sources.HDF5_INDEX,
        frames=r"^(zarr|numcodecs)/",
        where="item",
        least=0.5,
    ),
    SlowCall(
        "xarray-opened",
        "{call} opens a file and decodes its metadata each time",
        "open once per worker and keep it, or convert to one array before training",
        sources.HDF5_OPENING,
        "xarray.open_dataset xarray.open_mfdataset xarray.open_zarr xarray.load_dataset",
        where=EACH,
    ),
    SlowCall(
        "xarray-indexed",
        "each selection from xarray checks labels and builds new objects in Python",
        "take .values once, and index the NumPy array",
        sources.HDF5_INDEX,
        frames=r"^xarray/",
        where=EACH,
        least=0.5,
    ),
    SlowCall(
        "dask-computed",
        "{call} schedules a graph of tasks in Python for each item",
        "compute or persist a large block, and index that",
        sources.NIFTI,
        "dask.compute *.compute *.persist",
        frames=r"^(dask|distributed)/",
        where=EACH,
    ),
    SlowCall(
        "arrow-per-item",
        "{call} makes new Arrow objects for each item",
        "take a whole batch of rows at once, or keep the columns as NumPy arrays",
        sources.ARROW_ITEMS,
        "pyarrow.Table.take pyarrow.Table.filter pyarrow.Table.slice pyarrow.Table.to_pandas "
        "pyarrow.compute.* *.to_pandas",
        frames=r"^pyarrow/|^$",
        where="item",
    ),
    SlowCall(
        "duckdb-per-item",
        "{call} plans and runs a query for each item",
        "fetch the rows of a batch, or all of them, with one query",
        sources.OFFSET,
        "duckdb.sql duckdb.query duckdb.execute duckdb.connect *.fetchdf *.fetchnumpy *.df",
        frames=r"^$|^duckdb/",
        given=r"duckdb|fetch|\.df\(",
        where="item",
    ),
    SlowCall(
        "anndata-view",
        "each slice of an AnnData object makes views of all its tables",
        "take adata.X (and the columns of obs) as arrays once, and index those, a batch at a time",
        sources.ANNDATA,
        frames=r"^anndata/",
        where=EACH,
        least=0.4,
    ),
    SlowCall(
        "signals-of-mne",
        "each epoch of recordings is read and prepared anew",
        "call epochs.get_data() once, then index the array",
        sources.FRAME_ROWS,
        frames=r"^mne/",
        where="item",
        least=0.5,
    ),
    SlowCall(
        "atoms-read",
        "{call} parses structures, or searches neighbours, in Python for each item",
        "do it once before training and store index tensors (pre_transform)",
        sources.GRAPH_TRANSFORMS,
        "ase.io.read ase.neighborlist.* ase.db.* pymatgen.* *.get_neighbors "
        "*.get_all_neighbors *.get_atoms *.toatoms",
        frames=r"^(ase|pymatgen|matscipy)/",
        where=EACH,
    ),
    SlowCall(
        "sequences-parsed",
        "{call} parses or seeks through text files of sequences for each item",
        "encode all sequences once as arrays of small integers, and map them",
        sources.OPENED_EACH_ITEM,
        "Bio.SeqIO.parse Bio.SeqIO.read pysam.FastaFile pysam.FastaFile.fetch pyfaidx.Fasta "
        "pyfaidx.Fasta.* pyBigWig.open *.fetch",
        frames=r"^(Bio|pysam|pyfaidx)/|^$",
        where=EACH,
    ),
    SlowCall(
        "ranked-by-bm25",
        "{call} looks each word of the query up in every document, in Python",
        "use bm25s, which keeps the scores as a sparse matrix, and rank once before training",
        sources.BM25,
        "*.get_scores *.get_top_n *.get_batch_scores",
        frames=r"rank_bm25\.py",
        where="item step evaluation",
    ),
    SlowCall(
        "series-warped",
        "{call} fills a table of both series in Python",
        "use dtaidistance.dtw.distance_fast(a, b, window=w, use_pruning=True), written in C, and "
        "compute distances once before training",
        sources.WARPING,
        "fastdtw.fastdtw dtaidistance.dtw.distance dtw.dtw dtw.accelerated_dtw",
        without=r"use_c=True",
        frames=r"(^|/)(fastdtw/|dtaidistance/|dtw/|dtw\.py)",
        where="item step evaluation",
    ),
    SlowCall(
        "series-described",
        "tsfresh computes hundreds of features of each series",
        "compute them once before training, and keep the table; with EfficientFCParameters or "
        "MinimalFCParameters it leaves out the slow ones",
        sources.TSFRESH,
        "tsfresh.*",
        frames=r"^tsfresh/",
        where="item step evaluation",
    ),
    SlowCall(
        "spelling-corrected",
        "{call} makes all words within two letters of each unknown one",
        "correct texts once before training, each word once, with SpellChecker(distance=1)",
        sources.SPELLING,
        "*.correction *.candidates *.unknown *.correct",
        frames=r"^(spellchecker|textblob)/",
        where="item step evaluation",
    ),
    SlowCall(
        "homology-computed",
        "{call} reduces the complex of all points anew in each epoch",
        "compute diagrams once before training, of a few hundred points, with maxdim= no larger "
        "than needed",
        sources.HOMOLOGY,
        "ripser.ripser gudhi.RipsComplex gudhi.* gtda.homology.*",
        frames=r"^$|^(ripser|gudhi|gtda)/",
        where="item",
    ),
    SlowCall(
        "samples-of-deeplake",
        "Deep Lake reads and decompresses one sample for each index",
        "take its own loader, ds.dataloader() or ds.pytorch(num_workers=...), which reads whole "
        "chunks",
        sources.DEEPLAKE,
        frames=r"^(deeplake|hub)/(core|api|util)/",
        where="item",
        least=0.5,
    ),
    SlowCall(
        "rotations-one-by-one",
        "{call} makes a rotation object for each single rotation",
        "give it all of them at once: Rotation.from_euler('xyz', angles) of an array of n x 3, "
        "and apply(), as_matrix() of the whole",
        sources.ROTATIONS,
        "scipy.spatial.transform.Rotation.*",
        in_loop=True,
        frames=r"^$|^scipy/spatial/transform",
        where="item step evaluation",
    ),
    SlowCall(
        "loader-state-each-step",
        "the loader keeps its state, and that of its workers, at each step",
        "pass snapshot_every_n_steps=n to StatefulDataLoader, as often as checkpoints are written",
        sources.SNAPSHOTS,
        frames=r"torchdata/stateful_dataloader/\S+ \S*(state_dict|snapshot|_state\b|try_serialize)",
    ),
)
