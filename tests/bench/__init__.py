"""What scuba costs, each figure beside a floor measured in the same run. `just bench` runs it."""
