"""The methods, each of which reads like its paper's algorithm, and a table of them."""

METHODS = {
    "chain_of_knowledge": "reground.methods.chain_of_knowledge:ChainOfKnowledge",
    "cot": "reground.methods.baselines:ChainOfThought",
    "cot_rag": "reground.methods.baselines:ChainOfThoughtRAG",
    "cr_planner": "reground.methods.cr_planner:CRPlanner",
    "decomposed": "reground.methods.decomposed:Decomposed",
    "direct": "reground.methods.baselines:Direct",
    "few_shot": "reground.methods.baselines:FewShot",
    "few_shot_cot": "reground.methods.baselines:FewShotChainOfThought",
    "flare": "reground.methods.flare:FLARE",
    "grounded": "reground.methods.grounded:Grounded",
    "ircot": "reground.methods.ircot:IRCoT",
    "rag": "reground.methods.baselines:RAG",
    "rar": "reground.methods.rar:RaR",
    "rat": "reground.methods.rat:RAT",
    "react": "reground.methods.react:ReAct",
    "reflexion": "reground.methods.reflexion:Reflexion",
    "rewrite_retrieve_read": "reground.methods.rewrite_retrieve_read:RewriteRetrieveRead",
    "search_agent": "reground.methods.search_agent:SearchAgent",
    "self_consistency": "reground.methods.baselines:SelfConsistency",
    "self_refine": "reground.methods.self_refine:SelfRefine",
}
"""Where the class of each method is. That of another package may be a module with `METHOD`."""
