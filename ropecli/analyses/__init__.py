"""One question per file: data in, frozen result out."""
