/* A fusion group as a kernel description: members, what they read from memory, in which pass over a row (loop) each
 * value is made, what is kept from one loop to a later one. loop.c fills it, loop_emit.c prints it.
 *
 * A row is walked in loops 0, 1, ...: a value that needs a reduction of loop k is made in loop k + 1 or later. Values
 * without columns ("row values") live between loops with the same number in all lanes; stage s is before loop s. */
#ifndef MPC_CODEGEN_LOOP_H
#define MPC_CODEGEN_LOOP_H

#include "codegen/cg.h"
#include "ir/space.h"

enum { MPC_LOOP_ACCESSES = MPC_SPACE_NODES * MPC_SPACE_OPERANDS, MPC_LOOP_LOOPS = 30 };

typedef enum mpc_ref_kind { MPC_REF_MEMBER, MPC_REF_ACCESS, MPC_REF_CONST } mpc_ref_kind;
typedef struct mpc_ref { /* what an operand of a member is */
    mpc_ref_kind kind;
    uint32_t index;
    mpc_format format;
} mpc_ref;

typedef struct mpc_access { /* a value from outside, read with one pattern */
    mpc_value_id owner;     /* of the storage; of a range: the range */
    mpc_format format;
    mpc_atoms atoms;
    bool range; /* no memory: the number is the offset */
    uint32_t pointer;
} mpc_access;

typedef struct mpc_loop_const {
    mpc_value_id value;
    mpc_format format;
    uint32_t argument; /* in f[] or n[] */
} mpc_loop_const;

typedef struct mpc_loop_member {
    const mpc_node *node;
    const mpc_op *op;
    mpc_format format; /* of the result */
    mpc_ref ref[MPC_SPACE_OPERANDS];
    bool row_value;
    uint32_t when; /* loop (columns) or stage (row values) in which it is made; of a reduction: the loop it runs over */
    uint32_t needed; /* loops that want it, one bit each */
    bool saved;      /* kept in a scratch row */
    uint32_t scratch_row;
    bool stored, in_place;
    uint32_t pointer; /* where it is stored; of OVER: its partials or its result */
    uint32_t extra;   /* random_uniform: n[] of the stream */
    bool dropped;     /* a select that `when` of the launch makes unnecessary: it is its second operand */
} mpc_loop_member;

/* How a CUDA kernel shares the work: a *team* of threads walks one row, or one chunk of the columns of a row. A thread
 * holds packs of `width` columns: column = chunk start + (pack * team + lane) * width. */
typedef struct mpc_loop_team {
    uint32_t width, team, packs, threads;
    bool flat;      /* a row of blocks: all threads stride over its packs */
    bool registers; /* `packs` packs a thread, unrolled, so that what is read or made once stays; else loops that stride
                     */
    bool exact;     /* no pack is cut off by the end of the row (of a flat one: the rest comes after) */
    bool full;      /* no thread lacks a pack */
    int64_t chunks, row_blocks;
    const char *note;
} mpc_loop_team;

typedef struct mpc_loop {
    mpc_cg *cg;
    const mpc_node_id *nodes;
    uint32_t count;
    mpc_space space;
    mpc_loop_member member[MPC_SPACE_NODES];
    mpc_access access[MPC_LOOP_ACCESSES];
    uint32_t access_count;
    mpc_loop_const constant[MPC_LOOP_ACCESSES];
    uint32_t const_count;
    uint32_t loops, scratch_rows;
    int64_t per_unit; /* rows, or columns of a block */
    int64_t units;
    bool has_over;
    bool repeats;                     /* nothing is saved: what a later loop wants is made again */
    mpc_loop_team team;               /* CUDA */
    uint32_t digits[MPC_SPACE_ATOMS]; /* n[] of the extents of row atoms, when some access needs them */
    uint32_t strides[MPC_LOOP_ACCESSES][MPC_SPACE_ATOMS]; /* n[] */
    bool has_digits;
    mpc_cg_args args;
    mpc_value_id condition; /* when: bool scalar, MPC_NONE */
} mpc_loop;

/* n[0], n[1], ... of every loop kernel. */
enum { MPC_LOOP_ARG_PER_UNIT, MPC_LOOP_ARG_ROWS, MPC_LOOP_ARG_COLS, MPC_LOOP_ARG_SCRATCH, MPC_LOOP_ARG_CHUNKS = 3 };

/* false: error in cg->status. */
bool mpc_loop_describe(mpc_loop *l, mpc_cg *cg, const mpc_node_id *nodes, uint32_t count);
void mpc_loop_print(const mpc_loop *l, mpc_str *body);
/* The same description as a CUDA kernel (codegen/cuda/loop_cuda.c): chooses threads and blocks, adds the kernel. */
uint32_t mpc_cuda_loop_kernel(mpc_loop *l);
/* Fills l->team and the units. false: what is saved doesn't fit in registers; set `repeats` and ask again. */
bool mpc_cuda_loop_plan(mpc_loop *l);
void mpc_cuda_loop_print(const mpc_loop *l, mpc_str *body, uint32_t *shared_bytes);

/* false: only dropped selects name it. */
bool mpc_loop_uses(const mpc_loop *l, uint32_t access);
/* Does a pattern vary over some, but not all, rows? Then its offset is a sum over digits of the row number. */
bool mpc_loop_is_general(const mpc_loop *l, mpc_atoms atoms);
/* Offset in elements of the row that an access reads; `row`: the text of the row's number, 64 bits wide. */
void mpc_loop_print_offset(const mpc_loop *l, uint32_t access, const char *row, mpc_str *o);
/* "v3 = ..." of an elementwise member: expression text with conversions and rounding. */
void mpc_loop_expression(const mpc_loop_member *m, mpc_str *out);

#endif
