"""No module imports, by any way round, itself; imports for types count."""

import grimp


def test_no_import_leads_back() -> None:
    graph = grimp.build_graph("reground", cache_dir=None)
    for module in sorted(graph.modules):
        for imported in graph.find_modules_directly_imported_by(module):
            back = graph.find_shortest_chain(importer=imported, imported=module)
            assert back is None, f"{module} imports {imported}, which leads back: {' -> '.join(back or ())}"
