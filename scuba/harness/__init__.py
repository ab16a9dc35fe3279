"""Agent harnesses behind the one port that actors know, and a scripted model to try them on."""
