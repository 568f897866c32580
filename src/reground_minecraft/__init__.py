"""Planning in Minecraft: what can be obtained and how, plans as text, and whether a plan can be carried out."""
