"""What a notebook holds, what it writes, and the site that its pages make."""
