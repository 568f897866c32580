"""The methods, each of which reads like its paper's algorithm, and a table of them."""

METHODS = {
    "chain_of_knowledge": "reground.methods.chain_of_knowledge",
    "cot": "reground.methods.baselines:ChainOfThought",
    "cot_rag": "reground.methods.baselines:ChainOfThoughtRAG",
    "cr_planner": "reground.methods.cr_planner",
    "cr_planner_reflexion": "reground.methods.cr_planner_reflexion",
    "decomposed": "reground.methods.decomposed",
    "direct": "reground.methods.baselines:Direct",
    "few_shot": "reground.methods.baselines:FewShot",
    "few_shot_cot": "reground.methods.baselines:FewShotChainOfThought",
    "flare": "reground.methods.flare",
    "grounded": "reground.methods.grounded",
    "ircot": "reground.methods.ircot",
    "rag": "reground.methods.baselines:RAG",
    "rar": "reground.methods.rar",
    "rat": "reground.methods.rat",
    "react": "reground.methods.react",
    "reflexion": "reground.methods.reflexion",
    "rewrite_retrieve_read": "reground.methods.rewrite_retrieve_read",
    "search_agent": "reground.methods.search_agent",
    "self_consistency": "reground.methods.baselines:SelfConsistency",
    "self_refine": "reground.methods.self_refine",
}
"""Where each method is: a module with `METHOD`, or `module:Class`."""
