/* Templates of convolution kernels; follows prelude.h in programs that have one. */
