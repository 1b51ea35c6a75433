# SPDX-License-Identifier: Apache-2.0
"""Runs data_export_files_process and reads what it wrote as strangers would: h5py, h5ls, and the rules of NXdata.

    trace_files.py PROGRAM DOCUMENT
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

import h5py
import numpy as np

import trace_values


def check_nexus(path):
    """The plot that a viewer shows by default: NXdata whose axes fit its signal."""
    with h5py.File(path, "r") as file:
        group = file[file.attrs["default"].decode()]
        assert group.attrs["NX_class"] == b"NXdata"
        signal = group[group.attrs["signal"].decode()]
        axes = [group[name.decode()] for name in group.attrs["axes"]]
        assert signal.shape == tuple(len(axis) for axis in axes), (signal.shape, [len(axis) for axis in axes])
        assert [name.decode() for name in group["q"].attrs["dimensions"]] == ["layer", "qo_head", "row", "dim"]
        assert group["lse"].attrs["units"] == b"nat"
        assert group["k"].fletcher32 and group["k"].maxshape[2] is None
        assert bool(file.attrs["complete"]) is True

        def no_variable_length(name, item):
            kinds = [item.dtype] if isinstance(item, h5py.Dataset) else []
            kinds += [item.attrs.get_id(attribute).dtype for attribute in item.attrs]
            assert all(h5py.check_vlen_dtype(kind) is None and h5py.check_string_dtype(kind) is None or kind.kind == "S" for kind in kinds), name

        no_variable_length("/", file)
        file.visititems(no_variable_length)


def check_cut(path):
    """Rows of tokens 41 to 1999 of a longer trace, one in two: their log-sum-exp counts the tokens before 41 too."""
    with h5py.File(path, "r") as file:
        group = file["attention"]
        assert group.attrs["first_token"] == 41 and list(file["layers"].attrs["window"]) == [0, 64]
        seen = 41 + group["q_rows"][:] + 1
        assert (seen[0], seen[-1], len(seen)) == (43, 1999, 979), seen
        assert group["lse_keys"].shape == (2, 979) and group["lse_keys"].attrs["units"] == b"token"
        assert [name.decode() for name in group["lse_keys"].attrs["dimensions"]] == ["layer", "row"]
        assert np.array_equal(group["lse_keys"][0], seen)
        assert np.array_equal(group["lse_keys"][1], np.minimum(seen, 64))


def check_results(path):
    with h5py.File(path, "r") as file:
        table = file["results"]
        assert file.attrs["format"] == b"headscope-results" and file.attrs["version"] == 1
        assert [name.decode() for name in table.attrs["columns"]] == ["head", "time"]
        assert [text.decode() for text in table["head"]] == ["0:1", "", "9:7 café"]
        assert np.array_equal(table["time"][:], [1.5, np.nan, -0.25], equal_nan=True)
        assert table["time"].attrs["units"] == b"ms" and table.attrs["model"] == b"synthetic"


def main():
    program, document = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, folder], check=True)
        traces = sorted(str(path) for path in pathlib.Path(folder).glob("trace*.h5"))
        assert len(traces) == 3
        for path in traces:
            problem = trace_values.problem_of(path, 2500)
            assert problem is None, (path, problem)
            check_nexus(path)
            assert trace_values.run_example(document, path) == 0
            if shutil.which("h5ls"):
                listing = subprocess.run(["h5ls", "-r", path], check=True, capture_output=True, text=True).stdout
                assert "/attention/q             Dataset {3, 4, 1250/Inf, 16}" in listing, listing
        check_cut(folder + "/cut.h5")
        check_results(folder + "/results.h5")
    print("3 traces, 1 cut and 1 table read as they must")


if __name__ == "__main__":
    main()
