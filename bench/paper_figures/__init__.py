"""The papers' figures, drawn from what the benches record. bench/figures.py and bench/papers.py are the commands.

A group of figures is a file: model, kernels, sockets, ranks, remote_calls, buffers. Each figure names its records and
has a function that reads panels out of them. `undrawn` has those that need what one host does not have.

    figure      what a figure, a panel, a curve and bars are
    records     which command writes which record, and how samples are read out of it
    drawing     panels with matplotlib
    registry    all figures by name
    headlines   the papers' ratios beside the recorded ones

The texts of the papers have the captions and describe the axes; of D 9 alone they have the axes' numbers too. Panels
for networks become panels for what carries the bytes on one host.
"""
