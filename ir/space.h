/* The iteration space of a fusion group: what `fuse` asks before it lets a node into a group, and what code generation
 * walks. The largest values of a group have N elements in row-major order; N is cut into *atoms*, the coarsest factors
 * (outermost first, none is 1) such that every axis of every member is a run of atoms. A value is then the set of atoms
 * it varies over, whatever its shape: reshapes, kept axes and broadcasts need no special case. Trailing atoms are the
 * *columns* (the vector loop), the others the *rows*. */
#ifndef MPC_IR_SPACE_H
#define MPC_IR_SPACE_H

#include "ir/graph.h"

enum { MPC_SPACE_ATOMS = 16, MPC_SPACE_NODES = 96, MPC_SPACE_OPERANDS = 3 };
/* A reduction to one element of at most this many stays in one unit, and what follows may join its group. */
enum { MPC_SPACE_SINGLE = 16384 };

typedef uint32_t mpc_atoms; /* bit i: atom i */

typedef enum mpc_member_kind {
    MPC_MEMBER_EWISE, /* elementwise and views: one result element from the elements at the same place */
    MPC_MEMBER_ROW,   /* reduction over the columns: usable by the rest of the group after the loop over the row */
    MPC_MEMBER_OVER,  /* reduction over all rows, column by column, or of blocks to one element: known only when all
                         units are done */
} mpc_member_kind;

typedef struct mpc_member {
    mpc_member_kind kind;
    mpc_atoms operand[MPC_SPACE_OPERANDS], result; /* OVER of blocks: result 0 */
    bool inside[MPC_SPACE_OPERANDS];               /* the operand is made in the group */
} mpc_member;

typedef struct mpc_space {
    uint32_t atom_count, first_column;
    int64_t extent[MPC_SPACE_ATOMS];
    mpc_atoms all, columns;
    int64_t rows, cols;
    bool blocks; /* one row, split into blocks of columns: no member needs the whole row */
    bool single; /* one row, one unit */
    uint32_t count;
    mpc_member member[MPC_SPACE_NODES]; /* in the order of the nodes given */
} mpc_space;

/* May this op be a member at all (elementwise, reduction, reshape, expand, random_uniform)? */
bool mpc_space_takes(const mpc_graph *g, mpc_node_id node);
/* Elements of the node's own space: of its result, of a reduction's operand. */
int64_t mpc_space_size(const mpc_graph *g, mpc_node_id node);
/* `nodes` ascending. false: these nodes have no common space (or are too many). Constants and ranges are no members. */
bool mpc_space_build(const mpc_graph *g, const mpc_node_id *nodes, uint32_t count, mpc_space *space);
/* Product of the extents of a set of atoms; stride of atom `i` in a dense value over `atoms`. */
int64_t mpc_space_elements(const mpc_space *space, mpc_atoms atoms);
int64_t mpc_space_stride(const mpc_space *space, mpc_atoms atoms, uint32_t i);

#endif
