/* What a compiled kernel and the stand-in's libcuda know of each other. C and C++, with no other header: kernels have
 * none. A compiled file holds `cudasim_bind`, which is given the machine, and for each kernel NAME a
 * `cudasim_kernel_NAME`. */
#ifndef MPC_TESTS_CUDASIM_MACHINE_H
#define MPC_TESTS_CUDASIM_MACHINE_H

enum { CUDASIM_ABI = 4 }; /* changes with this file: an image of another number is refused, as one for another GPU */

/* What all `members` lanes of a warp do at once; the last one to come computes it for all. */
typedef enum cudasim_collective {
    CUDASIM_SYNC_WARP,
    CUDASIM_SHUFFLE,     /* in[0]: value, in[1]: lane that is asked; out[0] */
    CUDASIM_SHUFFLE_XOR, /* in[1]: mask */
    CUDASIM_LDMATRIX,    /* address; out[4] */
    CUDASIM_LDMATRIX_TRANSPOSED,
    CUDASIM_MMA_F16, /* in: d (4 floats), a (4), b (2); out: d */
    CUDASIM_MMA_BF16,
    CUDASIM_MMA_TF32
} cudasim_collective;
typedef struct cudasim_exchange {
    unsigned in[10], out[4];
    const void *address;
} cudasim_exchange;

/* `thread`, `block` and `shared` are those of the thread that runs; the functions may let other threads run before they
 * return. */
typedef struct cudasim_machine {
    int thread, threads, block;
    char *shared;
    unsigned shared_bytes;
    void (*barrier)(void);
    void (*together)(cudasim_collective what, unsigned members, cudasim_exchange *exchange);
    void (*copy_async)(void *shared, const void *global, int size, int bytes);
    void (*copy_commit)(void);
    void (*copy_wait)(int pending);
    void (*fail)(const char *what) __attribute__((noreturn)); /* the launch fails; does not return */
} cudasim_machine;

/* Writes the host address over each device address that it is given. */
typedef void cudasim_translate(void *user, void **pointer, int index);
typedef struct cudasim_kernel {
    int threads, param_count;
    unsigned param_bytes[3];
    unsigned block_bytes; /* of one argument block */
    int segmented;
    void (*run)(void *const *params);
    /* For one argument block. */
    void (*each_pointer)(void *block, cudasim_translate *translate, void *user);
} cudasim_kernel;

#endif
