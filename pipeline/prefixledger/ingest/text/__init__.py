"""From the text of prompts to block keys: parts, tokens or bytes, blocks, and the table of parts."""
