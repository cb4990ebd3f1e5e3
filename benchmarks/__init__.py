"""Speed, memory and quality against named peers, as ratios in one run."""
