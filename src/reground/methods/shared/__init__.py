"""What methods share: steps and revisions, evidence in prompts, queries, sentences, templates, worked examples."""
