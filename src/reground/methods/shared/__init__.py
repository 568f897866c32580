"""What methods share: steps and revisions as text, evidence in prompts, queries, sentences, templates, worked examples."""
