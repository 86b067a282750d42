"""Layer fusion with row tiling: several layers run together, a few rows at a time.

A *fused group* is a chain of consecutive nodes (with skip connections inside, if any) that becomes
one step of a program. Of the tensors between its nodes only a few rows exist at a time, in buffers
inside the step's scratch; nothing is computed twice. Kernels do not know of fusion: a *stage* is a
node whose kernel is called for row bands of the image, as if the layer had that height, with
padding only where the band touches the image's border. The rows of a resized image, of a transposed
convolution and of one that is made of channels lie at places of their own, for which a band's call
has tables or an offset. The calls of a stage differ in a few numbers only.

The compiler computes:

* the *schedule*: the order in which stages compute rows. It is demand-driven: a stage computes
  rows when a later stage needs them, at most ``rows`` at a time if it reads rows of a buffer
  itself. Of one row at a time a skip connection computes rows as soon as that frees more bytes of
  the tensor that it reads with another stage than its rows take;

* the row buffers: a stage appends its rows to those that are still live, so that each kernel
  finds its rows contiguous. All row buffers share an arena, where dead rows are reused. A kernel
  may overwrite rows that it reads last, as far as its access order permits
  (:mod:`hilc.lowering.access`). Rows are moved where free bytes are not contiguous;

* the scratch: row buffers and the stages' own scratch, allocated by live range; or, beside a skip
  connection and where that is clearly less, each stage's scratch at the beginning and the rows
  behind it, which move to make room for it;

* the kernel of each stage: the one with the fewest instructions for its bands, by estimate, unless
  the group names another.

The group reads its inputs and writes its output in their own buffers. Its scratch may lie over
bytes of an input that is not needed afterwards, if they are read before the scratch is written
there (:meth:`~hilc.fusion.call.FusedCall.scratch_differences`). A group of one node runs that
node's kernel on bands of its image, forward or backward: backward, an output may lie above its
input, over dead rows.

An average over the whole height can only end a group: it accumulates the rows as they are computed.
"""
