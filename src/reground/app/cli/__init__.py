"""app/cli"""
