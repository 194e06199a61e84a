"""Analyses, one question a file: data in, frozen result out."""
