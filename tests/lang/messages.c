/* The commonest mistakes, word for word as the user reads them: NAME.mpg gives NAME.txt. MPC_UPDATE=1 writes the texts
 * anew, for a person to read before they are kept. */
#include <stdlib.h>

#include "base/alloc.h"
#include "tests/check.h"
#include "tests/lang/elaborate.h"

static void check_message(const char *name) {
    char path[256], expected_path[256];
    snprintf(path, sizeof path, "tests/lang/messages/%s.mpg", name);
    snprintf(expected_path, sizeof expected_path, "tests/lang/messages/%s.txt", name);
    size_t length = 0;
    char *text = read_whole(path, &length), *expected = read_whole(expected_path, &length);
    char short_name[64];
    snprintf(short_name, sizeof short_name, "%s.mpg", name);
    session s;
    open_text(&s, short_name, text ? text : "", NULL, 0);
    mpc_data_facts facts = {.known = true, .columns = 65, .vocabulary = 20};
    mpc_phase phase = strncmp(name, "output", 6) == 0 ? MPC_PHASE_PREDICT : MPC_PHASE_TRAIN;
    mpc_graph *g = s.model ? mpc_model_elaborate(s.model, phase, 64, &facts) : NULL;
    mpc_str out = {0};
    for (size_t i = 0; i < mpc_diag_list_count(s.diags); i++)
        mpc_diag_render(mpc_diag_list_get(s.diags, i), s.sources, false, false, &out);
    FILE *f = getenv("MPC_UPDATE") ? fopen(expected_path, "wb") : NULL;
    if (f) {
        fputs(mpc_str_cstr(&out), f);
        fclose(f);
    } else CHECK_STR(mpc_str_cstr(&out), expected ? expected : "(no file)");
    mpc_str_free(&out);
    mpc_graph_destroy(g);
    close_session(&s);
    free(text);
    free(expected);
}

int main(void) {
    static const char *const names[] = {"argument", "parameter",   "module",      "shapes",   "division", "window",
                                        "compare",  "softmax",     "columns",     "syntax",   "unfed",    "first_size",
                                        "swapped",  "one_name",    "punctuation", "length",   "policy",   "policy_op",
                                        "output",   "output_text", "losses",      "squashed", "axes",     "trains",
                                        "fraction"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) check_message(names[i]);
    return check_result();
}
