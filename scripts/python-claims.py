#!/usr/bin/env python3
"""Prints the claims of the Python package: id, figure, target, clock, verdict.

Each figure is the ratio of two medians of interleaved runs in one process: ours over a peer's for
`vs_*`, a peer's over ours for `speedup`. The clock is the wall; answer arrays are included. A peer
that is not installed makes the claim `skipped`. Ends with 1 when a claim is short.

usage: scripts/python-claims.py [--only PREFIX] [--edges N] [--repeats N] [--plain] [--examples DIR]
"""

import argparse
import importlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy

import littoral
from littoral.graph import Graph

RESULTS = []
# How claims are printed, and where the packages graph is.
SHOWN = argparse.Namespace(plain=False, examples=Path("examples"))


def timed(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def medians(repeats, *works):
    """The median time of each work; they take turns."""
    for work in works:
        work()
    times = [[] for _ in works]
    for _ in range(repeats):
        for kept, work in zip(times, works):
            kept.append(timed(work))
    return [statistics.median(kept) for kept in times]


def need(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def tell(name, figure, target, better, what):
    """Prints one claim."""
    if figure is None:
        verdict, shown = "skipped", "-"
    else:
        holds = figure <= target if better == "lower" else figure >= target
        verdict, shown = ("holds" if holds else "short"), f"{figure:.3f}"
    RESULTS.append(verdict)
    if SHOWN.plain:
        return print(name, shown, what, sep="\t", flush=True)
    word = "at most" if better == "lower" else "at least"
    print(f"{name:32} {shown:>8}  {word} {target:g}  wall  {verdict:8} {what}", flush=True)


def columns(edges):
    """Ends of random edges, two per cent of them twice."""
    rng = numpy.random.default_rng(20)
    vertices = max(16, edges // 16)
    source = rng.integers(0, vertices, edges, dtype=numpy.int64)
    target = rng.integers(0, vertices, edges, dtype=numpy.int64)
    again = edges // 50
    source[:again], target[:again] = source[-again:], target[-again:]
    return source, target, vertices


def ingest(options):
    sparse = need("scipy.sparse")
    what = f"{options.edges} edges to a graph without duplicates, beside coo_matrix.tocsr"
    if sparse is None:
        return tell("python.ingest.vs_scipy", None, 1.0, "lower", "scipy is missing")
    source, target, n = columns(options.edges)

    def theirs():
        entries = numpy.ones(len(source), dtype=numpy.int8)
        sparse.coo_matrix((entries, (source, target)), shape=(n, n)).tocsr()

    def ours():
        Graph.from_arrays(source, target, vertices=n, directed=False)

    a, b = medians(options.repeats, ours, theirs)
    tell("python.ingest.vs_scipy", a / b, 1.0, "lower", f"{what}: {a:.2f} s, {b:.2f} s")


def kernels(options):
    source, target, n = columns(options.edges)
    graph = Graph.from_arrays(source, target, vertices=n)
    start = int(source[0])
    csgraph = need("scipy.sparse.csgraph")
    if csgraph is None:
        for name in ("bfs", "cc"):
            tell(f"python.{name}.vs_scipy", None, 0.3, "lower", "scipy is missing")
    else:
        sparse = need("scipy.sparse")
        both = numpy.concatenate([source, target]), numpy.concatenate([target, source])
        matrix = sparse.coo_matrix((numpy.ones(len(both[0])), both), shape=(n, n)).tocsr()

        def bfs():
            csgraph.breadth_first_order(matrix, start, directed=True, return_predecessors=True)

        def components():
            csgraph.connected_components(matrix, directed=False)

        for name, ours, theirs in (
            ("bfs", lambda: graph.bfs(start, threads=1), bfs),
            ("cc", lambda: graph.components(threads=1), components),
        ):
            a, b = medians(options.repeats, ours, theirs)
            what = f"one thread, {a * 1e3:.1f} ms, {b * 1e3:.1f} ms"
            tell(f"python.{name}.vs_scipy", a / b, 0.3, "lower", what)
        del matrix, both
    igraph = need("igraph")
    if igraph is None:
        return tell("python.pr.vs_igraph", None, 0.1, "lower", "igraph is missing")
    theirs = igraph.Graph(n=n, edges=numpy.column_stack([source, target]))
    theirs.simplify()
    a, b = medians(
        options.repeats, lambda: graph.pagerank(tol=1e-6, threads=1), lambda: theirs.pagerank()
    )
    tell("python.pr.vs_igraph", a / b, 0.1, "lower", f"one thread, {a:.3f} s, {b:.3f} s")


def packages():
    """The edges of the packages graph that the repository ships, as text."""
    path = SHOWN.examples / "packages.tsv.zst"
    if not path.exists():
        return None
    unpacked = Path(tempfile.mkdtemp()) / "packages.tsv"
    zstd = shutil.which("zstd")
    if zstd is not None:
        subprocess.run([zstd, "-dqc", str(path)], stdout=unpacked.open("wb"), check=True)
        return unpacked
    arrow = need("pyarrow")
    if arrow is None:
        return None
    unpacked.write_bytes(arrow.CompressedInputStream(arrow.OSFile(str(path)), "zstd").read())
    return unpacked


def networkx(options):
    nx, path = need("networkx"), packages()
    if nx is None or path is None:
        missing = "networkx" if nx is None else str(SHOWN.examples / "packages.tsv.zst")
        for name in ("pr", "tc", "bc"):
            for end, target in (("", 10), (".converting", 2)):
                claim = f"python.networkx.{name}.speedup{end}"
                tell(claim, None, target, "higher", f"{missing} is missing")
        return
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    rows = [fields[:2] for fields in (line.split("\t") for line in lines) if len(fields) > 1]
    directed = nx.DiGraph(rows)
    directed.remove_edges_from(list(nx.selfloop_edges(directed)))
    undirected = nx.Graph(directed)
    core = undirected.subgraph(sorted(undirected, key=undirected.degree)[-2000:]).copy()
    backend = importlib.import_module("littoral._networkx").backend
    jobs = (
        ("pr", "pagerank", directed, 3),
        ("tc", "triangles", undirected, 3),
        # All sources of the whole graph take networkx hours.
        ("bc", "betweenness_centrality", core, 1),
    )
    for short, name, graph, repeats in jobs:
        function = getattr(nx, name)
        converted = backend.convert_from_nx(graph)
        theirs, ours, whole = medians(
            min(repeats, options.repeats),
            lambda: function(graph, backend="networkx"),
            lambda: function(converted, backend="littoral"),
            # Without the conversion that networkx keeps from the run before.
            lambda: (graph.__networkx_cache__.clear(), function(graph, backend="littoral")),
        )
        size = f"{len(graph)} nodes, {graph.number_of_edges()} edges"
        for end, time_s, target in (("", ours, 10), (".converting", whole, 2)):
            what = f"{size}: {time_s * 1e3:.1f} ms, {theirs * 1e3:.1f} ms"
            tell(f"python.networkx.{short}.speedup{end}", theirs / time_s, target, "higher", what)


def imports(options):
    duckdb = need("duckdb")
    if duckdb is None:
        return tell("python.import.vs_duckdb", None, 0.5, "lower", "duckdb is missing")
    source, target, n = columns(options.edges)
    folder = Path(tempfile.mkdtemp())
    path = folder / "edges.csv"
    table = need("pandas").DataFrame({"source": source, "target": target})
    table.to_csv(path, index=False)

    def theirs():
        query = (
            f"copy (select distinct least(source, target) a, greatest(source, target) b "
            f"from read_csv('{path}') order by a, b) to '{folder / 'out.parquet'}'"
        )
        duckdb.connect().execute(query)

    def ours():
        graph = Graph.open(path, directed=False)
        graph.save(folder / "out.lg", overwrite=True)

    a, b = medians(max(1, options.repeats // 2), ours, theirs)
    what = f"a CSV of {options.edges} edges to a file, {a:.2f} s; distinct, sorted, {b:.2f} s"
    tell("python.import.vs_duckdb", a / b, 0.5, "lower", what)
    shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="claims whose id begins so, after python.")
    parser.add_argument("--edges", type=int, default=10_000_000, help="edges of random graphs")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each side (5)")
    parser.add_argument("--plain", action="store_true", help="id, figure, remark; tabs between")
    here = Path(__file__).resolve().parent.parent / "examples" if "__file__" in globals() else None
    parser.add_argument("--examples", type=Path, default=here, help="the folder examples/")
    options = parser.parse_args()
    SHOWN.plain, SHOWN.examples = options.plain, options.examples
    print(f"littoral {littoral.__version__}, numpy {numpy.__version__}, {os.cpu_count()} processors")
    parts = {"ingest": ingest, "kernels": kernels, "networkx": networkx, "import": imports}
    for name, part in parts.items():
        if name.startswith(options.only):
            part(options)
    sys.exit(1 if "short" in RESULTS else 0)


if __name__ == "__main__":
    main()
