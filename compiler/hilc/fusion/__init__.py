"""Layers that run together, a few rows at a time: streaming groups.

A group is a chain of consecutive nodes (with skip connections inside, if any) that becomes one step
of a program. Of the tensors between its nodes only a few rows exist at a time, in buffers that are
part of the step's scratch; nothing is computed twice. No kernel knows of this: a *stage* is a node
whose kernel is called for bands of the image, as the layer that it would be if the image were that
high and padded where the band meets the image's border. Such calls differ in a few numbers only.

What is worked out here, at compile time:

* the *schedule*: which stage computes which rows when. It is driven by demand: a stage computes
  rows when a later one needs them, at most ``rows`` at a time if it reads rows of a buffer itself.
* the buffers: a stage appends its rows to those that are still needed, so that each kernel sees its
  rows together. All buffers share an arena: the room of rows that one has no more use for is the
  next one's. A kernel may write over rows that it is the last to read, as far as its order allows
  (:mod:`hilc.lowering.access`). Where there is room, but elsewhere, rows move;
* the scratch: buffers and the stages' own scratch, placed by when which of their bytes are in use.

The group's inputs are read in their own place, its output is written to its own. A group of one
node is that node's kernel run on bands of its image, from the first to the last or from the last to
the first: backward, an output may lie above its input, over what is dead already.

An average over the whole height ends a group: it adds the rows up as they come.
"""
