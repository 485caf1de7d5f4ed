/* --add-pass AFTER=PIPELINE: more passes in the pipelines that commands on a model make for themselves. The text is
 * changed, not what is parsed, so what was added is checked, reported and reproduced like everything else. Evaluation
 * has no `grad`, so a pass after it runs in training only. */
#include <string.h>

#include "driver/session.h"

/* Length of the first item: up to a comma outside braces and quotes. */
static size_t item_length(const char *text) {
    int depth = 0;
    bool quoted = false;
    size_t i = 0;
    for (; text[i] != '\0' && (depth > 0 || quoted || text[i] != ','); i++) {
        if (text[i] == '"') quoted = !quoted;
        else if (!quoted && text[i] == '{') depth++;
        else if (!quoted && text[i] == '}') depth--;
    }
    return i;
}

static void add_after(const mpc_text_list *added, const char *item, mpc_str *out) {
    size_t length = strcspn(item, "{,");
    for (size_t i = 0; i < added->count; i++) {
        const char *text = added->data[i], *equals = strchr(text, '=');
        if ((size_t)(equals - text) == length && memcmp(text, item, length) == 0)
            mpc_str_printf(out, ",%s", equals + 1);
    }
}

void mpc_add_passes(const mpc_text_list *added, mpc_str *pipeline) {
    mpc_str out = {0};
    if (added->count == 0) return;
    for (const char *at = mpc_str_cstr(pipeline); *at != '\0';) {
        size_t length = item_length(at);
        mpc_str_append_n(&out, at, length);
        add_after(added, at, &out);
        at += length;
        if (*at != ',') continue;
        mpc_str_append(&out, ",");
        at++;
    }
    out.failed = out.failed || pipeline->failed;
    mpc_str_free(pipeline);
    *pipeline = out;
}

bool mpc_check_added_passes(const mpc_text_list *added, const mpc_context *ctx, const mpc_sink *sink) {
    for (size_t i = 0; i < added->count; i++) {
        char name[64] = "";
        size_t length = strcspn(added->data[i], "=");
        if (length < sizeof name) memcpy(name, added->data[i], length);
        if (mpc_pass_named(ctx, name)) continue;
        mpc_error(sink, "E102", "--add-pass %s: there is no pass `%.*s`; `mpc passes` lists them", added->data[i],
                  (int)length, added->data[i]);
        return false;
    }
    return true;
}
