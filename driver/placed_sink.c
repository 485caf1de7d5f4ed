/* Readers know a file by its path and nothing of the model. What they say of a row or an element has its place, which
 * stays; what they say of the file as a whole (it isn't there, it is no NPZ) has none. */
#include "driver/placed_sink.h"

static void emit(void *user, const mpc_diag *diag) {
    const mpc_placed *p = user;
    const mpc_label label = {.span = p->span, .text = "this file"};
    mpc_diag placed = *diag;
    if (p->span.file && !diag->place && diag->label_count == 0) {
        placed.labels = &label;
        placed.label_count = 1;
    }
    if (p->to && p->to->emit) p->to->emit(p->to->user, &placed);
}

mpc_sink mpc_placed_sink(mpc_placed *p) { return (mpc_sink){.emit = emit, .user = p}; }
