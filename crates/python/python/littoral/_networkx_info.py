"""What networkx reads about the backend before it imports the backend itself.

Nothing here imports networkx, which asks for it while it is being imported.
"""

from __future__ import annotations

from typing import Any

#: The functions of the backend, with what their documentation adds.
COVERED = {
    "pagerank": "Unweighted simple graphs without self-loops.",
    "triangles": "Undirected graphs; self-loops count for nothing, as in networkx.",
    "betweenness_centrality": "All sources; k, weight and endpoints are not taken.",
    "connected_components": "Undirected graphs.",
    "number_connected_components": "Undirected graphs.",
    "is_connected": "Undirected graphs.",
    "weakly_connected_components": "Directed graphs.",
    "number_weakly_connected_components": "Directed graphs.",
    "is_weakly_connected": "Directed graphs.",
    "core_number": "Graphs without self-loops.",
    "single_source_shortest_path_length": "Every edge has length 1.",
    "single_source_dijkstra_path_length": "Weights are whole numbers, distances below 2^24.",
}


def get_info() -> dict[str, Any]:
    """What networkx's documentation says about the backend."""
    return {
        "backend_name": "littoral",
        "project": "littoral",
        "package": "littoral",
        "short_summary": "Kernels over graphs whose edges lie in DRAM or on flash",
        "functions": {name: {"additional_docs": words} for name, words in COVERED.items()},
    }
