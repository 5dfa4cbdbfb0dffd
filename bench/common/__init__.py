"""What the benches share: process pairs, the placement probe, interleaving, medians, tables and plots."""
