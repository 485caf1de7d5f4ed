/* The lexer of the text form and its mirror, the quoting of names. White space and `#` comments separate tokens and
 * mean nothing else. A ':' belongs to a name only if more of the name follows, so that `%x: f32[]` and `%add:2` both
 * read as expected. */
#include "ir/ir_lexer.h"

#include <string.h>

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_word_char(char c) { return is_letter(c) || is_digit(c); }
static bool is_name_char(char c) { return is_word_char(c) || (c && strchr(".:/$-", c)); }

bool mpc_ir_plain_name(const char *name) {
    size_t length = strlen(name);
    if (!length || name[length - 1] == ':') return false;
    for (size_t i = 0; i < length; i++)
        if (!is_name_char(name[i])) return false;
    return true;
}

bool mpc_ir_plain_word(const char *text) {
    if (!is_letter(text[0])) return false;
    for (; *text; text++)
        if (!is_word_char(*text)) return false;
    return true;
}

static char escape_letter(char c) {
    switch (c) {
    case '"':
        return '"';
    case '\\':
        return '\\';
    case '\n':
        return 'n';
    case '\t':
        return 't';
    case '\r':
        return 'r';
    default:
        return 0;
    }
}

void mpc_ir_print_quoted(const char *text, mpc_str *out) {
    mpc_str_append(out, "\"");
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        char letter = escape_letter(*text);
        if (letter) mpc_str_printf(out, "\\%c", letter);
        else if (c < 32 || c == 127) mpc_str_printf(out, "\\x%02x", c);
        else mpc_str_append_n(out, text, 1);
    }
    mpc_str_append(out, "\"");
}

static char peek(const mpc_ir_lexer *l, uint32_t ahead) {
    return ahead < l->length - l->at ? l->text[l->at + ahead] : '\0';
}

static void skip_blanks(mpc_ir_lexer *l) {
    while (l->at < l->length) {
        char c = l->text[l->at];
        if (c == '#')
            while (l->at < l->length && l->text[l->at] != '\n') l->at++;
        else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') l->at++;
        else return;
    }
}

static bool bad(mpc_ir_lexer *l, const char *code, const char *error) {
    l->code = code;
    l->error = error;
    return false;
}

static int hex_digit(char c) {
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool lex_escape(mpc_ir_lexer *l) {
    char c = peek(l, 1), plain = '\0';
    uint32_t length = 2;
    if (c == '"' || c == '\\') plain = c;
    else if (c == 'n') plain = '\n';
    else if (c == 't') plain = '\t';
    else if (c == 'r') plain = '\r';
    else if (c == 'x') {
        int high = hex_digit(peek(l, 2)), low = hex_digit(peek(l, 3));
        if (high >= 0 && low >= 0) plain = (char)(high * 16 + low);
        length = 4;
    }
    if (!plain) return bad(l, "E501", "this escape is none of \\\" \\\\ \\n \\t \\r \\xHH (HH not 00)");
    mpc_str_append_n(&l->buffer, &plain, 1);
    l->at += length;
    return true;
}

/* From the opening quote. */
static bool lex_quoted(mpc_ir_lexer *l, mpc_ir_token *token) {
    mpc_str_clear(&l->buffer);
    l->at++;
    while (l->at < l->length && l->text[l->at] != '"') {
        char c = l->text[l->at];
        if (c == '\n') break;
        if (c == '\0') return bad(l, "E501", "a zero byte can't be part of a text");
        if (c == '\\') {
            if (!lex_escape(l)) return false;
            continue;
        }
        mpc_str_append_n(&l->buffer, &c, 1);
        l->at++;
    }
    if (l->at >= l->length || l->text[l->at] != '"') return bad(l, "E512", "the closing quote is missing");
    l->at++;
    if (l->buffer.failed) return bad(l, "E901", NULL);
    token->text = mpc_str_cstr(&l->buffer);
    token->length = l->buffer.length;
    return true;
}

/* Behind % or @. */
static bool lex_name(mpc_ir_lexer *l, mpc_ir_token *token) {
    l->at++;
    if (peek(l, 0) == '"') {
        if (!lex_quoted(l, token)) return false;
        return token->length || bad(l, "E501", "a name can't be empty");
    }
    uint32_t begin = l->at;
    while (is_name_char(peek(l, 0))) l->at++;
    while (l->at > begin && l->text[l->at - 1] == ':') l->at--;
    token->text = l->text + begin;
    token->length = l->at - begin;
    return token->length || bad(l, "E501", "a name is missing here");
}

static void lex_number(mpc_ir_lexer *l) {
    if (peek(l, 0) == '-' || peek(l, 0) == '+') l->at++;
    while (is_word_char(peek(l, 0)) || peek(l, 0) == '.') {
        char c = peek(l, 0), sign = peek(l, 1);
        l->at += (c == 'e' || c == 'E') && (sign == '-' || sign == '+') ? 2 : 1;
    }
}

static bool lex_token(mpc_ir_lexer *l, mpc_ir_token *token) {
    char c = peek(l, 0);
    if (c == '%' || c == '@') {
        token->kind = c == '%' ? MPC_TOK_VALUE : MPC_TOK_GRAPH;
        return lex_name(l, token);
    }
    if (c == '"') {
        token->kind = MPC_TOK_STRING;
        return lex_quoted(l, token);
    }
    token->text = l->text + l->at;
    if (is_letter(c)) {
        token->kind = MPC_TOK_WORD;
        while (is_word_char(peek(l, 0))) l->at++;
    } else if (is_digit(c) || c == '-' || c == '+' || c == '.') {
        token->kind = MPC_TOK_NUMBER;
        lex_number(l);
    } else if (c && strchr("(){}[],:=", c)) {
        token->kind = MPC_TOK_PUNCT;
        token->punct = c;
        l->at++;
    } else {
        l->at++;
        return bad(l, "E501", "this character has no meaning here");
    }
    token->length = l->at - token->begin;
    return true;
}

mpc_ir_token mpc_ir_lex(mpc_ir_lexer *l) {
    skip_blanks(l);
    mpc_ir_token token = {.kind = MPC_TOK_END, .begin = l->at, .end = l->at, .text = ""};
    if (l->at >= l->length) return token;
    if (!lex_token(l, &token)) token.kind = MPC_TOK_BAD;
    token.end = l->at;
    return token;
}
