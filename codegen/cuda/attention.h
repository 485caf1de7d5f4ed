/* Templates of attention kernels; follows prelude.h in programs that have one. */
