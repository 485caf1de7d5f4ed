/* The data section between the files of the front end: sources as they are read, fields as they are elaborated. */
#ifndef MPC_FRONTEND_FE_DATA_H
#define MPC_FRONTEND_FE_DATA_H

#include "frontend/fe_elab.h"

/* A source as it is written: csv("x.csv"), zip(npy("x.npy"), npy("y.npy")), split(train, 0.1). false after an error. */
bool fe_read_source(mpc_model *m, const fe_ast *value, mpc_data_source *s);
/* field["x"], images, labels. */
fe_value fe_array_field(fe_elab *e, const fe_ast *at);

#endif
