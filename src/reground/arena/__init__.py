"""The arena: people and models compare two anonymous answers at a time, and TrueSkill ranks the methods."""
