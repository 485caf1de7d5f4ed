"""Every file of corpus/ through the commands that read it: a diagnostic with its code, never a crash, a hang or a leak."""
import os
import shutil
import tempfile

from support import CORPUS, check, fails, finish, in_parallel, mpc, survives

# what `mpc train` says of a model file; None: it trains
MODELS = {
    "accumulate_0.mpg": "E303",
    "bare_cr.mpg": None,
    "batch_0.mpg": "E303",
    "batch_float.mpg": "E303",
    "batch_huge.mpg": "E303",
    "batch_minus_1.mpg": "E303",
    "batch_nan.mpg": "E303",
    "batch_of_nothing.mpg": "E014",
    "bom_crlf.mpg": None,
    "column_unnamed.mpg": "E204",
    "columns_backwards.mpg": "E204",
    "columns_beyond.mpg": "E204",
    "columns_huge.mpg": "E204",
    "comment_only.mpg": "E049",
    "const_cycle.mpg": "E018",
    "const_min_divided.mpg": "E022",
    "const_min_remainder.mpg": "E017",
    "const_overflow.mpg": "E017",
    "const_power.mpg": "E017",
    "conv_groups.mpg": "E022",
    "conv_huge_pad.mpg": "E017",
    "conv_kernel_0.mpg": "E017",
    "conv_stride_0.mpg": "E017",
    "cut_utf8.mpg": "E003",
    "dims_overflow_bytes.mpg": "E021",
    "dropout_1.mpg": "E017",
    "duplicate_losses.mpg": "E049",
    "duplicate_parameters.mpg": "E041",
    "embedding_0.mpg": "E017",
    "empty.mpg": "E049",
    "empty_model.mpg": "E202",
    "float_to_int.mpg": "E017",
    "good.mpg": None,
    "huge_dims.mpg": "E017",
    "huge_integer.mpg": "E001",
    "if_number.mpg": "E016",
    "if_tensor.mpg": "E016",
    "latin1.mpg": "E003",
    "length_0.mpg": None,
    "list_bomb.mpg": "E017",
    "lr_nan.mpg": "E303",
    "monitor_train_loss.mpg": None,
    "mutual_recursion.mpg": "E051",
    "nan_to_int.mpg": "E017",
    "negative_dim.mpg": "E014",
    "newline_in_quote.mpg": "E005",
    "no_batch.mpg": "E050",
    "no_data.mpg": "E355",
    "nul.mpg": "E003",
    "one_line.mpg": "E002",
    "only_train.mpg": "E049",
    "range_1e9.mpg": "E017",
    "rank_9.mpg": "E014",
    "recursion_fan.mpg": "E051",
    "repeat_1e9.mpg": "E016",
    "repeat_minus_1.mpg": "E016",
    "repeat_nested.mpg": "E051",
    "reshape_minus.mpg": "E026",
    "reshape_overflow.mpg": "E026",
    "seed_huge.mpg": "E001",
    "selector_nothing.mpg": "E045",
    "selector_stars.mpg": "E045",
    "self_recursion.mpg": "E051",
    "slice_huge.mpg": "E027",
    "split_all.mpg": "E205",
    "split_itself.mpg": "E205",
    "split_nan.mpg": "E205",
    "surrogate.mpg": "E003",
    "text_as_csv.mpg": "E050",
    "text_length_0.mpg": "E205",
    "text_length_huge.mpg": "E205",
    "text_length_minus.mpg": "E205",
    "text_no_length.mpg": "E205",
    "two_batches.mpg": "E301",
    "two_models.mpg": "E049",
    "unclosed_block.mpg": "E005",
    "unclosed_quote.mpg": "E005",
    "use_broken.mpg": "E005",
    "use_device.mpg": "E060",
    "use_folder.mpg": "E060",
    "use_itself.mpg": "E061",
    "use_missing.mpg": "E060",
    "use_std_missing.mpg": "E060",
    "use_utf16.mpg": "E003",
    "utf16.mpg": "E003",
    "wide_layer.mpg": "E017",
    "width_0.mpg": "E017",
    "width_minus_1.mpg": "E017",
}
# what `mpc train good.mpg` says when its data are this file
TABLES = {
    "label_nan.csv": "E213",
    "bad_sum.csv.gz": "E210",
    "bare_cr.csv": "E214",
    "binary.csv": "E215",
    "blank_lines.csv": "E214",
    "bom.csv": None,
    "crlf.csv": None,
    "cut.csv.gz": "E210",
    "cut_off.csv": "E211",
    "empty.csv.gz": "E214",
    "empty_field.csv": "E212",
    "flipped.csv.gz": "E210",
    "good.csv": None,
    "good.csv.gz": None,
    "head_only.csv.gz": "E210",
    "header.csv": None,
    "header_only.csv": "E214",
    "hex_junk.csv": "E212",
    "inf.csv": "E213",
    "label_2_31.csv": "E212",
    "label_3.csv": "E201",
    "label_float.csv": "E212",
    "label_huge.csv": "E212",
    "label_minus_1.csv": "E201",
    "label_text.csv": "E212",
    "latin1.csv": "E212",
    "long_number.csv": "E212",
    "nan.csv": "E213",
    "no_trailer.csv.gz": "E210",
    "not_gzip.csv.gz": None,
    "nul.csv": "E215",
    "overflow.csv": "E213",
    "quote_junk.csv": "E215",
    "quote_open.csv": "E215",
    "quoted.csv": None,
    "ragged_long.csv": "E211",
    "ragged_short.csv": "E211",
    "rows_0.csv": "E214",
    "rows_1.csv": None,
    "rows_2.csv": None,
    "semicolons.csv": "E204",
    "text_after.csv.gz": None,
    "text_field.csv": "E212",
    "two_bytes.csv.gz": "E210",
    "two_members.csv.gz": None,
    "two_numbers.csv": "E212",
    "utf16.csv": "E215",
}
# and text.mpg
TEXTS = {
    "cut_utf8.txt": "E215",
    "empty.txt": "E216",
    "exact.txt": None,
    "good.txt": None,
    "latin1.txt": "E215",
    "nul.txt": None,
    "one_letter.txt": None,
    "short.txt": "E216",
}
# what `mpc opt` says of a graph; None: it is well-formed
GRAPHS = {
    "axes_many.mpir": "E507",
    "axis_huge.mpir": "E507",
    "axis_negative.mpir": "E507",
    "conv_stride_0.mpir": "E507",
    "cut_off.mpir": "E501",
    "defined_twice.mpir": "E504",
    "dim_negative.mpir": "E510",
    "dims_overflow.mpir": "E510",
    "duplicate_outputs.mpir": "E511",
    "empty.mpir": "E502",
    "expand_overflow.mpir": "E510",
    "format_for_computing.mpir": "E507",
    "format_unknown.mpir": "E508",
    "good.mpir": None,
    "group_backwards.mpir": None,
    "group_cycle.mpir": "V14",
    "group_gap.mpir": "V14",
    "group_huge.mpir": "V01",
    "integer_huge.mpir": "E510",
    "itself.mpir": "E503",
    "latin1.mpir": "E501",
    "loss_not_scalar.mpir": None,
    "loss_of_integers.mpir": None,
    "next_of_no_state.mpir": "E511",
    "next_other_type.mpir": "V09",
    "nothing.mpir": None,
    "nul.mpir": "E501",
    "number_huge.mpir": None,
    "open_quote.mpir": "E512",
    "place_beyond.mpir": "V13",
    "place_overlap.mpir": None,
    "rank_9.mpir": "E510",
    "reshape_overflow.mpir": "E507",
    "slice_huge.mpir": "E507",
    "state_unnamed.mpir": "E506",
    "unknown_attribute.mpir": "E506",
    "unknown_op.mpir": "E505",
    "unknown_value.mpir": "E503",
    "version_99.mpir": "E502",
    "wrong_count.mpir": "E509",
    "wrong_type.mpir": "E507",
}
# what `mpc train good.mpg --init` says of a file of weights; None: it trains
WEIGHTS = {
    "backwards.safetensors": "E414",
    "bf16.safetensors": None,
    "cut_data.safetensors": "E414",
    "dtype_missing.safetensors": "E412",
    "dtype_null.safetensors": "E412",
    "dtype_other.safetensors": "E401",
    "dtype_unknown.safetensors": "E413",
    "empty.safetensors": "E411",
    "extra_tensor.safetensors": None,
    "gap.safetensors": "E414",
    "good.safetensors": None,
    "header_array.safetensors": "E412",
    "header_binary.safetensors": "E412",
    "header_cut.safetensors": "E412",
    "header_deep.safetensors": "E412",
    "header_latin1.safetensors": "E412",
    "header_nul.safetensors": "E412",
    "header_utf16.safetensors": "E412",
    "length_2_60.safetensors": "E411",
    "length_2_64.safetensors": "E411",
    "length_one_less.safetensors": "E412",
    "length_one_more.safetensors": "E411",
    "metadata_number.safetensors": "E412",
    "metadata_text.safetensors": "E412",
    "missing_tensor.safetensors": "E401",
    "more_data.safetensors": "E414",
    "name_empty.safetensors": "E401",
    "name_nul.safetensors": "E412",
    "name_twice.safetensors": "E412",
    "nan.safetensors": "E360",
    "no_header.safetensors": "E412",
    "no_tensors.safetensors": "E401",
    "offsets_beyond_2_64.safetensors": "E412",
    "offsets_float.safetensors": "E412",
    "offsets_huge.safetensors": "E412",
    "offsets_negative.safetensors": "E414",
    "offsets_three.safetensors": "E412",
    "overlap.safetensors": "E414",
    "padded.safetensors": None,
    "seven_bytes.safetensors": "E411",
    "shape_negative.safetensors": "E413",
    "shape_other.safetensors": "E401",
    "shape_overflow.safetensors": "E413",
    "shape_rank_20.safetensors": "E413",
    "shape_text.safetensors": "E413",
    "shape_wrap.safetensors": "E413",
    "shape_zero.safetensors": "E401",
    "tensor_is_number.safetensors": "E412",
}
ON_MODELS = (("dump-ir", "--stage", "final"), ("explain",), ("config",))
PIPELINES = ("@train,@lower", "fuse,schedule,memory", "schedule", "memory")


def place_of(name):
    return os.path.join(CORPUS, name)


def train(path, *options):
    return mpc("train", path, "--steps", "2", "--device", "ref", "--threads", "1", "--out", "run", *options)


def expect(result, code):
    if code is None:
        survives(result, 0)
    elif code == "E360":
        check(result.status == 3 and code in result.codes, result.status, result.err)
    else:
        fails(result, code)


def model_file(item):
    name, code = item
    expect(train(place_of(name)), code)
    for command, *options in ON_MODELS:
        survives(mpc(command, place_of(name), *options))


def data_file(item):
    """The model of the corpus, its data file replaced by this one."""
    model, given, name, code = item
    with open(place_of(model), encoding="utf-8") as f:
        text = f.read().replace(given, place_of(name))
    with tempfile.TemporaryDirectory(prefix="mpc-robust-") as folder:
        path = os.path.join(folder, "model.mpg")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        expect(train(path), code)


def graph_file(item):
    name, code = item
    expect(mpc("opt", place_of(name), "--passes", "dce"), code)
    for pipeline in PIPELINES:
        r = mpc("opt", place_of(name), "--passes", pipeline)
        survives(r, None if code is None else 1)


def weights_file(item):
    """As initial weights, in place of a checkpoint's weights, and of its states."""
    name, code = item
    expect(train(place_of("good.mpg"), "--init", place_of(name)), code)
    with tempfile.TemporaryDirectory(prefix="mpc-robust-") as folder:
        run = os.path.join(folder, "run")
        shutil.copytree(TRAINED, run)
        with open(os.path.join(run, "checkpoints", "last"), encoding="ascii") as f:
            checkpoint = os.path.join(run, "checkpoints", f.read().strip())
        shutil.copy(os.path.join(checkpoint, "state.safetensors"), folder)
        shutil.copy(place_of(name), os.path.join(checkpoint, "state.safetensors"))
        fails(mpc("train", place_of("good.mpg"), "--device", "ref", "--resume", run, "--change", "length=4 steps"))
        shutil.copy(os.path.join(folder, "state.safetensors"), checkpoint)
        shutil.copy(place_of(name), os.path.join(checkpoint, "weights.safetensors"))
        for words in (("eval", "--split", "train"), ("predict", "--input", place_of("good.csv"))):
            survives(mpc(words[0], place_of("good.mpg"), "--device", "ref", "--from", run, *words[1:]))
        survives(mpc("predict", place_of("good.mpg"), "--device", "ref", "--from", run, "--input", place_of(name)), 1)


def not_a_file():
    """A folder, a missing file and one that may not be read, in the place of each kind of file."""
    with tempfile.TemporaryDirectory(prefix="mpc-robust-") as folder:
        secret = os.path.join(folder, "secret")
        with open(secret, "w", encoding="ascii"):
            os.chmod(secret, 0)
        for path in (folder, os.path.join(folder, "nothing"), *([] if os.geteuid() == 0 else [secret])):
            for command in ("train", "dump-ir", "explain", "config", "eval", "predict"):
                more = ("--from", path) if command in ("eval", "predict") else ()
                fails(mpc(command, path, *more))
            fails(mpc("opt", path, "--passes", "dce"))
            fails(train(place_of("good.mpg"), "--init", path))
            fails(mpc("train", place_of("good.mpg"), "--device", "ref", "--resume", path))
            fails(mpc("eval", place_of("good.mpg"), "--device", "ref", "--from", path))
            for model, given in (("good.mpg", "good.csv"), ("text.mpg", "FILE")):
                with open(place_of(model), encoding="utf-8") as f:
                    text = f.read().replace(given, path)
                with open(os.path.join(folder, "m.mpg"), "w", encoding="utf-8") as f:
                    f.write(text)
                fails(train(os.path.join(folder, "m.mpg")), "E210")


HOLDER = tempfile.TemporaryDirectory(prefix="mpc-robust-")
TRAINED = os.path.join(HOLDER.name, "trained")
survives(mpc("train", place_of("good.mpg"), "--device", "ref", "--out", TRAINED), 0)

in_parallel(model_file, MODELS.items())
in_parallel(data_file, [("good.mpg", "good.csv", *item) for item in TABLES.items()])
in_parallel(data_file, [("text.mpg", "FILE", *item) for item in TEXTS.items()])
in_parallel(graph_file, GRAPHS.items())
in_parallel(weights_file, WEIGHTS.items())
not_a_file()
for options, code in ((("--const", "nope=3"), "E302"), (("--set", "nope=3"), "E301"), (("--set", "batch=("), None), (("--const", "=("), None)):
    broken = train(place_of("good.mpg"), *options)
    survives(broken, None)
    check(broken.status in (1, 2) and (code is None or code in broken.codes), options, broken.err)
known = set(MODELS) | set(TABLES) | set(TEXTS) | set(GRAPHS) | set(WEIGHTS) | {"text.mpg"}
check(known == set(os.listdir(CORPUS)), known ^ set(os.listdir(CORPUS)))
HOLDER.cleanup()
finish()
