#!/usr/bin/env python3
"""Prints the claims of the Python package: id, figure, target, clock, verdict.

Each figure is the ratio of two minima of at least five interleaved runs in one process, which is
pinned to one processor: ours over a peer's for `vs_*`, a peer's over ours for `speedup`. The clock
is the wall; answer arrays are included. Answers are compared before anything is timed; a claim
whose answers differ is short, whatever the times. A peer that is not installed makes the claim `skipped`.
Ends with 1 when a claim is short.

usage: scripts/python-claims.py [--only PREFIX] [--edges N] [--repeats N] [--plain] [--examples DIR]
"""

import argparse
import importlib
import os
import math
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy

import littoral
from littoral.graph import Graph

RESULTS = []
FOLDERS = []
#: Runs of each side at least.
REPEATS_MIN = 5
# How claims are printed, and where the packages graph is.
SHOWN = argparse.Namespace(plain=False, examples=Path("examples"))


def timed(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def minima(repeats, *works):
    """The least time of each work; they take turns."""
    times = [[] for _ in works]
    for _ in range(max(REPEATS_MIN, repeats)):
        for kept, work in zip(times, works):
            kept.append(timed(work))
    return [min(kept) for kept in times]


def same_parts(ours, theirs):
    """Whether two labellings divide the vertices alike."""
    pairs = numpy.unique(numpy.column_stack([ours, theirs]), axis=0)
    return len(pairs) == len(numpy.unique(ours)) == len(numpy.unique(theirs))


def levels(order, parents, start):
    """The level of each vertex that a search reached in `order`, -1 for the others."""
    found = numpy.full(len(parents), -1)
    found[start] = 0
    for vertex in order[1:]:
        found[vertex] = found[parents[vertex]] + 1
    return found


def edges_of(source, target):
    """How many edges are left without direction, loops and duplicates."""
    pairs = numpy.sort(numpy.column_stack([source, target]), axis=1)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return len(numpy.unique(pairs[:, 0] << 32 | pairs[:, 1]))


def differ(name, target, better, what):
    """Prints a claim whose answers differ: no time makes it hold."""
    figure = math.inf if better == "lower" else 0.0
    tell(name, figure, target, better, f"the answers differ: {what}")


def folder():
    """A folder that goes when the script ends, however it ends."""
    FOLDERS.append(tempfile.TemporaryDirectory())
    return Path(FOLDERS[-1].name)


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
        # In full: rounded, a figure just beyond its target would reach it.
        exact = "-" if figure is None else repr(float(figure))
        return print(name, exact, what, sep="\t", flush=True)
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

    found = Graph.from_arrays(source, target, vertices=n, directed=False).edges
    wanted = edges_of(source, target)
    if found != wanted:
        return differ("python.ingest.vs_scipy", 1.0, "lower", f"{found} edges, not {wanted}")
    a, b = minima(options.repeats, ours, theirs)
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
            return csgraph.breadth_first_order(
                matrix, start, directed=True, return_predecessors=True
            )

        def components():
            return csgraph.connected_components(matrix, directed=False)

        def same_levels():
            return (graph.levels(start) == levels(*bfs(), start)).all()

        def same_components():
            return same_parts(graph.components(), components()[1])

        for name, ours, theirs, are_same in (
            ("bfs", lambda: graph.bfs(start, threads=1), bfs, same_levels),
            ("cc", lambda: graph.components(threads=1), components, same_components),
        ):
            if not are_same():
                differ(f"python.{name}.vs_scipy", 0.3, "lower", f"{n} vertices")
                continue
            a, b = minima(options.repeats, ours, theirs)
            what = f"one thread, {a * 1e3:.1f} ms, {b * 1e3:.1f} ms"
            tell(f"python.{name}.vs_scipy", a / b, 0.3, "lower", what)
        del matrix, both
    igraph = need("igraph")
    if igraph is None:
        return tell("python.pr.vs_igraph", None, 0.1, "lower", "igraph is missing")
    theirs = igraph.Graph(n=n, edges=numpy.column_stack([source, target]))
    theirs.simplify()
    off = numpy.abs(graph.pagerank(tol=1e-6, threads=1)[0] - theirs.pagerank()).sum()
    if not off < 1e-3:
        return differ("python.pr.vs_igraph", 0.1, "lower", f"ranks are {off:.2e} apart in all")
    a, b = minima(
        options.repeats, lambda: graph.pagerank(tol=1e-6, threads=1), lambda: theirs.pagerank()
    )
    tell("python.pr.vs_igraph", a / b, 0.1, "lower", f"one thread, {a:.3f} s, {b:.3f} s")


def packages():
    """The edges of the packages graph that the repository ships, as text."""
    path = SHOWN.examples / "packages.tsv.zst"
    if not path.exists():
        return None
    unpacked = folder() / "packages.tsv"
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
        ("pr", "pagerank", directed),
        ("tc", "triangles", undirected),
        # All sources of the whole graph take networkx hours.
        ("bc", "betweenness_centrality", core),
    )
    for short, name, graph in jobs:
        function = getattr(nx, name)
        converted = backend.convert_from_nx(graph)
        found = function(converted, backend="littoral")
        wanted = function(graph, backend="networkx")
        off = max(abs(found[node] - wanted[node]) for node in graph)
        if not off < 1e-5:
            for end, target in (("", 10), (".converting", 2)):
                claim = f"python.networkx.{short}.speedup{end}"
                differ(claim, target, "higher", f"{off:.2e} at one node")
            continue
        theirs, ours, whole = minima(
            options.repeats,
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
    # pandas writes the table.
    duckdb, pandas = need("duckdb"), need("pandas")
    if duckdb is None or pandas is None:
        missing = "duckdb" if duckdb is None else "pandas"
        return tell("python.import.vs_duckdb", None, 0.5, "lower", f"{missing} is missing")
    source, target, n = columns(options.edges)
    made = folder()
    path = made / "edges.csv"
    table = pandas.DataFrame({"source": source, "target": target})
    table.to_csv(path, index=False)

    def theirs():
        query = (
            f"copy (select distinct least(source, target) a, greatest(source, target) b "
            f"from read_csv('{path}') order by a, b) to '{made / 'out.parquet'}'"
        )
        duckdb.connect(config={"threads": 1}).execute(query)

    def ours():
        graph = Graph.open(path, directed=False)
        graph.save(made / "out.lg", overwrite=True)

    ours(), theirs()
    count = f"select count(*) from '{made / 'out.parquet'}' where a <> b"
    found, wanted = Graph.open(made / "out.lg").edges, duckdb.sql(count).fetchone()[0]
    if found != wanted:
        return differ("python.import.vs_duckdb", 0.5, "lower", f"{found} edges, not {wanted}")
    a, b = minima(options.repeats, ours, theirs)
    what = f"a CSV of {options.edges} edges to a file, {a:.2f} s; distinct, sorted, {b:.2f} s"
    tell("python.import.vs_duckdb", a / b, 0.5, "lower", what)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="claims whose id begins so, after python.")
    parser.add_argument("--edges", type=int, default=10_000_000, help="edges of random graphs")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each side, at least 5")
    parser.add_argument("--plain", action="store_true", help="id, figure, remark; tabs between")
    here = Path(__file__).resolve().parent.parent / "examples" if "__file__" in globals() else None
    parser.add_argument("--examples", type=Path, default=here, help="the folder examples/")
    options = parser.parse_args()
    SHOWN.plain, SHOWN.examples = options.plain, options.examples
    # One processor for all: a peer with threads of its own would be held against one of ours.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print(f"littoral {littoral.__version__}, numpy {numpy.__version__}, pinned to one processor")
    parts = {"ingest": ingest, "kernels": kernels, "networkx": networkx, "import": imports}
    for name, part in parts.items():
        if name.startswith(options.only):
            part(options)
    sys.exit(1 if "short" in RESULTS else 0)


if __name__ == "__main__":
    main()
