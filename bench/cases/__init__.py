"""What is measured side by side, a module for each part of the kit."""
