/* Files that use each other. Every file is a scope of its own: a name means what it means in the file where it is
 * written, so a block finds its own file's helpers wherever it is called from, and a file's private names never meet
 * another's. Only blocks and constants travel, and only those that the file declares itself; its model and sections
 * stay behind. Each file is read once, whoever uses it: files are the same when they have the same id in the sources.
 */
#include <string.h>

#include "base/alloc.h"
#include "frontend/fe_elab.h"

enum { MOST_FILES = 256, DEEPEST_USE = 64 };

/* --- what names mean --- */

/* The file in whose names a text is read: itself, that of the constant that a --const replaces, or the model's own. */
static uint32_t scope_of(const mpc_model *m, uint32_t id) {
    for (size_t i = 0; i < m->files.count; i++)
        if (m->files.data[i].id == id) return id;
    for (size_t i = 0; i < m->consts.count; i++)
        if (m->consts.data[i].expr->span.file == id) return m->consts.data[i].item->span.file;
    return m->file;
}

static bool sees(const mpc_model *m, const fe_ast *at, const fe_name *name) {
    return name->file == at->span.file || name->file == scope_of(m, at->span.file);
}

/* The last name of a spelling; the others follow by `before`. */
static const fe_name *first_of(const mpc_model *m, mpc_sym sym) {
    return sym < m->latest.count && m->latest.data[sym] ? &m->names.data[m->latest.data[sym] - 1] : NULL;
}

static const fe_name *next_of(const mpc_model *m, const fe_name *n) {
    return n->before ? &m->names.data[n->before - 1] : NULL;
}

static const fe_name *find_name(const mpc_model *m, const fe_ast *at, bool is_block) {
    for (const fe_name *n = first_of(m, at->sym); n; n = next_of(m, n))
        if (n->is_block == is_block && sees(m, at, n)) return n;
    return NULL;
}

static const fe_name *find_in_file(const mpc_model *m, uint32_t file, mpc_sym sym, bool is_block) {
    for (const fe_name *n = first_of(m, sym); n; n = next_of(m, n))
        if (n->is_block == is_block && n->file == file) return n;
    return NULL;
}

fe_const *fe_find_const(mpc_model *m, const fe_ast *name) {
    const fe_name *n = find_name(m, name, false);
    return n ? &m->consts.data[n->index] : NULL;
}

fe_block *fe_find_block(mpc_model *m, const fe_ast *name) {
    const fe_name *n = find_name(m, name, true);
    return n ? &m->blocks.data[n->index] : NULL;
}

fe_const *fe_const_named(const mpc_model *m, const char *name) {
    const fe_name *n = find_in_file(m, m->file, mpc_intern(m->ctx, name), false);
    return n ? &m->consts.data[n->index] : NULL;
}

static const fe_ast *item_of(const mpc_model *m, const fe_name *n) {
    return n->is_block ? m->blocks.data[n->index].item : m->consts.data[n->index].item;
}

void fe_suggest_names(const mpc_model *m, const fe_ast *at, bool is_block, fe_suggestion *s) {
    for (size_t i = 0; i < m->names.count; i++) {
        const fe_name *n = &m->names.data[i];
        if (n->is_block == is_block && sees(m, at, n)) fe_suggest_try(s, mpc_sym_text(m->ctx, n->sym));
    }
}

bool fe_help_elsewhere(const mpc_model *m, const fe_ast *at, bool is_block, fe_report *r) {
    for (const fe_name *n = first_of(m, at->sym); n; n = next_of(m, n)) {
        if (n->is_block != is_block || n->file == m->file || item_of(m, n)->span.file != n->file) continue;
        fe_help(r, "%s has such a %s, but this file doesn't use it: add `%s` to the names of its `use`",
                mpc_sources_name(mpc_context_sources(m->ctx), n->file), is_block ? "block" : "constant", at->text);
        return true;
    }
    return false;
}

/* --- declarations of one file --- */

static void twice(mpc_model *m, const fe_ast *item, mpc_span first, const char *what) {
    fe_report r =
        fe_begin(&m->diag, MPC_SEV_ERROR, "E049", item->name_span, "%s `%s` is declared twice", what, item->text);
    fe_note(&r, first, "the first time here");
    fe_send(&r);
}

static const fe_ast *find_item(const fe_list *items, const fe_ast *until) {
    for (const fe_ast *i = items->first; i && i != until; i = i->next)
        if (i->kind == until->kind && i->sym == until->sym) return i;
    return NULL;
}

static void add_name(mpc_model *m, fe_name name) {
    bool ok = true;
    while (ok && m->latest.count <= name.sym) ok = mpc_array_push(&m->latest, 0);
    name.before = ok ? m->latest.data[name.sym] : 0;
    ok = ok && mpc_array_push(&m->names, name);
    if (ok) m->latest.data[name.sym] = (uint32_t)m->names.count;
    else m->diag.no_memory = true;
}

static void declare(mpc_model *m, const fe_ast *item, bool is_block) {
    bool ok = is_block ? mpc_array_push(&m->blocks, (fe_block){.item = item})
                       : mpc_array_push(&m->consts, (fe_const){.item = item, .expr = item->kid[0]});
    if (!ok) m->diag.no_memory = true;
    else
        add_name(m, (fe_name){.sym = item->sym,
                              .file = item->span.file,
                              .is_block = is_block,
                              .index = (uint32_t)(is_block ? m->blocks.count : m->consts.count) - 1,
                              .from = item->name_span});
}

static void declare_model(mpc_model *m, fe_ast *item) {
    if (m->item) fe_error(&m->diag, "E049", item->name_span, "a file has one model; `%s` is the second", item->text);
    m->item = item;
}

static void declare_items(mpc_model *m, const fe_file *file) {
    for (fe_ast *i = file->items.first; i && m->diag.errors <= FE_MAX_ERRORS; i = i->next) {
        if (i->kind == AST_CONST || i->kind == AST_BLOCK) {
            const fe_name *first = find_in_file(m, file->id, i->sym, i->kind == AST_BLOCK);
            if (first) twice(m, i, first->from, i->kind == AST_BLOCK ? "the block" : "the constant");
            else declare(m, i, i->kind == AST_BLOCK);
        } else if (i->kind != AST_USE) {
            const fe_ast *first = find_item(&file->items, i);
            if (first) twice(m, i, first->name_span, i->kind == AST_MODEL ? "the model" : "the section");
            else if (i->kind == AST_MODEL && !file->use) declare_model(m, i);
        }
    }
}

static void check_parameters(mpc_model *m, const fe_ast *item) {
    for (const fe_ast *p = item->list.first; p; p = p->next) {
        const fe_const *c = fe_find_const(m, p);
        for (const fe_ast *q = item->list.first; q != p; q = q->next)
            if (q->sym == p->sym) fe_error(&m->diag, "E049", p->name_span, "`%s` stands here twice", p->text);
        if (!c) continue;
        fe_report r = fe_begin(&m->diag, MPC_SEV_ERROR, "E044", p->name_span,
                               "`%s` is a constant; a parameter needs another name", p->text);
        fe_note(&r, c->item->span, "it is declared here");
        if (item->kind == AST_BLOCK) fe_help(&r, "blocks see constants: leave the parameter out, or rename it");
        fe_send(&r);
    }
}

static void finish_items(mpc_model *m, const fe_file *file) {
    for (fe_ast *i = file->items.first; i; i = i->next) {
        if (i->kind != AST_BLOCK && (i->kind != AST_MODEL || file->use)) continue;
        if (!fe_name_sites(m->arena, &i->list, &i->other)) m->diag.no_memory = true;
        check_parameters(m, i);
    }
}

/* --- what `use` brings --- */

static void refuse_second(mpc_model *m, const fe_ast *use, mpc_span from, const fe_name *second, const fe_name *first) {
    const fe_ast *item = item_of(m, second), *other = item_of(m, first);
    fe_report r = fe_begin(&m->diag, MPC_SEV_ERROR, "E049", from, "`%s` comes from two files", item->text);
    fe_label(&r, "brings one");
    fe_note(&r, item->name_span, "this one");
    if (first->from.begin != other->name_span.begin || first->from.file != other->name_span.file)
        fe_note(&r, first->from, "there is one already, from here");
    fe_note(&r, other->name_span, "the one that is there already");
    fe_help(&r, "name what is wanted: use a, b from \"%s\"", use->text);
    fe_send(&r);
}

static void bring(mpc_model *m, const fe_ast *use, mpc_span from, fe_name name) {
    const fe_name *mine = find_in_file(m, use->span.file, name.sym, name.is_block);
    if (mine && mine->index == name.index) return; /* the same, brought twice */
    if (mine) {
        refuse_second(m, use, from, &name, mine);
        return;
    }
    name.file = use->span.file;
    name.from = from;
    name.whole = !use->list.count;
    add_name(m, name);
}

static bool is_declared_in(const mpc_model *m, const fe_name *n, uint32_t file) {
    return n->file == file && item_of(m, n)->span.file == file;
}

static void bring_all(mpc_model *m, const fe_ast *use, uint32_t file) {
    for (size_t i = 0, count = m->names.count; i < count; i++)
        if (is_declared_in(m, &m->names.data[i], file)) bring(m, use, use->name_span, m->names.data[i]);
}

static void bring_one(mpc_model *m, const fe_ast *use, const fe_ast *wanted, uint32_t file) {
    bool found = false;
    fe_suggestion s = fe_suggest(wanted->text);
    for (size_t i = 0, count = m->names.count; i < count; i++) {
        if (!is_declared_in(m, &m->names.data[i], file)) continue;
        fe_suggest_try(&s, mpc_sym_text(m->ctx, m->names.data[i].sym));
        if (m->names.data[i].sym != wanted->sym) continue;
        bring(m, use, wanted->span, m->names.data[i]);
        found = true;
    }
    if (found) return;
    fe_report r = fe_begin(&m->diag, MPC_SEV_ERROR, "E062", wanted->span, "%s has no block and no constant `%s`",
                           mpc_sources_name(mpc_context_sources(m->ctx), file), wanted->text);
    if (s.best) fe_help(&r, "did you mean `%s`?", s.best);
    fe_send(&r);
}

/* --- opening --- */

static const char *file_name(const mpc_model *m, uint32_t index) {
    return mpc_sources_name(mpc_context_sources(m->ctx), m->files.data[index].id);
}

/* Error with the way from the model's file to the `use` that closes the circle. */
static void refuse_circle(mpc_model *m, uint32_t user, const fe_ast *use, uint32_t target) {
    fe_report r = fe_begin(&m->diag, MPC_SEV_ERROR, "E061", use->name_span, "%s uses itself", file_name(m, target));
    for (uint32_t i = user; i != target; i = m->files.data[i].user)
        fe_note(&r, m->files.data[i].use->name_span, "%s is used here", file_name(m, i));
    fe_help(&r, "put what both need into a third file that uses neither");
    fe_send(&r);
}

static bool is_std(const char *said) { return strncmp(said, "std/", 4) == 0; }

/* A file of mpc's own by its name; one of them names its neighbours without the folder. */
static uint32_t open_std(mpc_model *m, const char *name, const mpc_std_file **std, mpc_str *why) {
    const mpc_std_file *f = mpc_std_find(name);
    *std = f;
    if (!f) {
        mpc_str_printf(why, "mpc has no %s; it has", name);
        for (size_t i = 0; mpc_std_at(i); i++) mpc_str_printf(why, "%s %s", i ? "," : "", mpc_std_at(i)->name);
        return 0;
    }
    for (size_t i = 0; i < m->files.count; i++)
        if (m->files.data[i].std == f) return m->files.data[i].id;
    uint32_t id = mpc_sources_add(mpc_context_sources(m->ctx), f->name, *f->text, strlen(*f->text));
    if (!id) m->diag.no_memory = true;
    return id;
}

static uint32_t open_used(mpc_model *m, uint32_t user, const fe_ast *use, const mpc_std_file **std) {
    mpc_str why = {0}, beside = {0};
    uint32_t id = 0;
    *std = NULL;
    if (m->files.data[user].std && !is_std(use->text)) mpc_str_printf(&beside, "std/%s", use->text);
    else mpc_str_append(&beside, use->text);
    if (beside.failed) m->diag.no_memory = true;
    else if (is_std(mpc_str_cstr(&beside))) id = open_std(m, beside.data, std, &why);
    else if (m->others) id = m->others->open(m->others->user, m->files.data[user].id, use->text, &why);
    else mpc_str_append(&why, "there are no other files here");
    if (!id && !m->diag.no_memory) {
        fe_report r = fe_begin(&m->diag, MPC_SEV_ERROR, "E060", use->name_span, "%s", mpc_str_cstr(&why));
        if (!is_std(use->text))
            fe_help(&r, "the name is relative to the file that says it; std/ holds mpc's own files");
        fe_send(&r);
    }
    mpc_str_free(&why);
    mpc_str_free(&beside);
    return id;
}

static uint32_t depth_of(const mpc_model *m, uint32_t index) {
    uint32_t depth = 0;
    for (; m->files.data[index].use; index = m->files.data[index].user) depth++;
    return depth;
}

/* A name for the copy in a run's folder: its own, with a number where two have the same. */
static const char *copy_name(mpc_model *m, uint32_t id) {
    const char *base = mpc_path_name(mpc_sources_name(mpc_context_sources(m->ctx), id)), *dot = strrchr(base, '.');
    size_t stem = dot ? (size_t)(dot - base) : strlen(base);
    const char *copy = mpc_arena_strdup(m->arena, base);
    for (size_t i = 0, number = 2; copy && i < m->files.count; i++) {
        if (!m->files.data[i].copy || strcmp(m->files.data[i].copy, copy) != 0) continue;
        copy = mpc_arena_printf(m->arena, "%.*s-%zu%s", (int)stem, base, number++, base + stem);
        i = (size_t)-1; /* the new name is compared with all of them */
    }
    if (!copy) m->diag.no_memory = true;
    return copy;
}

static void load_file(mpc_model *m, uint32_t index);

/* Index of the file that a `use` names, read if it wasn't yet; 0 after errors: nothing uses the model's own file. */
static uint32_t find_file(mpc_model *m, uint32_t user, const fe_ast *use) {
    const mpc_std_file *std;
    uint32_t id = open_used(m, user, use, &std);
    for (uint32_t i = 0; id && i < m->files.count; i++) {
        if (m->files.data[i].id != id) continue;
        if (!m->files.data[i].complete) refuse_circle(m, user, use, i);
        return m->files.data[i].complete ? i : 0;
    }
    if (!id) return 0;
    if (m->files.count >= MOST_FILES || depth_of(m, user) >= DEEPEST_USE) {
        fe_error(&m->diag, "E061", use->name_span,
                 "a model is made of %d files at most, which use each other %d deep at most", MOST_FILES, DEEPEST_USE);
        return 0;
    }
    fe_file file = {.id = id, .use = use, .user = user, .std = std, .copy = copy_name(m, id)};
    uint32_t index = (uint32_t)m->files.count;
    if (!mpc_array_push(&m->files, file)) {
        m->diag.no_memory = true;
        return 0;
    }
    load_file(m, index);
    return m->files.data[index].complete ? index : 0;
}

static void load_file(mpc_model *m, uint32_t index) {
    fe_list items = {0};
    if (!fe_parse(m, m->files.data[index].id, &items, NULL)) {
        if (!m->diag.errors) m->diag.no_memory = true;
        return;
    }
    m->files.data[index].items = items;
    declare_items(m, &m->files.data[index]);
    for (fe_ast *i = items.first; i && !m->diag.no_memory && m->diag.errors <= FE_MAX_ERRORS; i = i->next) {
        uint32_t used = i->kind == AST_USE ? find_file(m, index, i) : 0;
        if (!used) continue;
        i->integer = used;
        uint32_t id = m->files.data[used].id;
        if (!i->list.count) bring_all(m, i, id);
        for (const fe_ast *n = i->list.first; n; n = n->next) bring_one(m, i, n, id);
    }
    finish_items(m, &m->files.data[index]);
    m->files.data[index].complete = true;
}

void fe_load_files(mpc_model *m) {
    if (!mpc_array_push(&m->files, (fe_file){.id = m->file})) {
        m->diag.no_memory = true;
        return;
    }
    load_file(m, 0);
    m->items = m->files.data[0].items;
    if (m->item || m->diag.errors || m->diag.no_memory) return;
    fe_report r = fe_begin(&m->diag, MPC_SEV_ERROR, "E049", (mpc_span){m->file, 0, 0}, "this file has no model");
    fe_help(&r, "model name(x: f32[batch, 10], y: i32[batch]) { ... }");
    fe_send(&r);
}
