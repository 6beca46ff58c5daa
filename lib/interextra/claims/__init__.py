"""What papers claim: stated with margins, answered from tables of effects, judged, put in words."""
