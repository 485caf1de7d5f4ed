/* Grammar of `.mpg`. Pure, no conflicts. It builds the tree and nothing else; the words where, weight, trains, from, use, train, data,
 * params, policy and input are soft: names wherever a name may stand. */
%require "3.8"
%expect 0
%define api.pure full
%define api.prefix {mpg_}
%define api.token.prefix {MPG_}
%define api.location.type {mpc_span}
%define parse.error custom
%define parse.lac full
%define lr.default-reduction accepting
%locations
%lex-param {void *scanner}
%parse-param {fe_parser *p} {void *scanner}

%code requires {
#include "frontend/ast.h"
}
%code {
#include "base/alloc.h"
#include "frontend/fe_diag.h"
#include "frontend/lex.h"
#define YYMALLOC mpc_alloc
#define YYFREE mpc_free
#define YYMAXDEPTH 20000
#define YYLLOC_DEFAULT(current, rhs, n)                                                                              \
    do {                                                                                                             \
        (current) = (n) ? fe_span_join(YYRHSLOC(rhs, 1), YYRHSLOC(rhs, n))                                           \
                        : (mpc_span){YYRHSLOC(rhs, 0).file, YYRHSLOC(rhs, 0).end, YYRHSLOC(rhs, 0).end};             \
    } while (0)
int mpg_lex(MPG_STYPE *value, MPG_LTYPE *loc, void *scanner);
static void mpg_error(const MPG_LTYPE *loc, fe_parser *p, void *scanner, const char *message);
}

%union {
    fe_ast *node;
    fe_list list;
}

%token START_FILE START_EXPRESSION
%token <node> IDENT "a name" NUMBER "a number" QUANTITY "a quantity" STRING "a text in quotes"
%token <node> CONST "const" BLOCK "block" MODEL "model" RETURN "return" REPEAT "repeat" IF "if" ELSE "else" IN "in" AS "as"
%token <node> LOSS "loss" METRIC "metric" OUTPUT "output" INPUT "input" OR "or" AND "and" NOT "not" TRUE "true" FALSE "false"
%token <node> USE "use" FROM "from" WHERE "where" WEIGHT "weight" TRAINS "trains" DATA "data" TRAIN "train" PARAMS "params" POLICY "policy"
%token NL "the end of the line" HOLE "_" EQ "==" NE "!=" LE "<=" GE ">=" POW "**" ARROW "->" ELLIPSIS "..."
%token '(' "(" ')' ")" '[' "[" ']' "]" '{' "{" '}' "}" '=' "=" ',' "," ':' ":" '.' "." '@' "@" '+' "+" '-' "-" '*' "*" '/' "/" '%' "%" '<' "<" '>' ">"

%left "or"
%left "and"
%precedence "not"
%nonassoc "==" "!=" '<' '>' "<=" ">="
%left '+' '-'
%left '*' '/' '%'
%precedence UNARY
%right "**"

%type <node> item section entry skey parm type dim stmt named head if name member expr post prim arg sub
%type <list> items file sbody elist globs names result types parms parml dims diml body slist exprs list args argl subs lmods
%%
start: START_FILE file { p->items = $2; }
     | START_EXPRESSION expr { p->expression = $2; }
     | START_EXPRESSION expr NL { p->expression = $2; }
     ;
file: items ;
items: %empty { $$ = (fe_list){0}; }
     | item { $$ = (fe_list){0}; fe_list_add(p, &$$, $1); }
     | items NL
     | items NL item { $$ = $1; fe_list_add(p, &$$, $3); p->stray = p->stray && $3 == &p->nothing; }
     ;
item: "use" STRING { $$ = fe_node_text(p, AST_USE, @$, $2); }
    | "use" names "from" STRING { $$ = fe_node_text(p, AST_USE, @$, $4); $$->list = $2; }
    | "const" name '=' expr { $$ = fe_node_text(p, AST_CONST, @$, $2); $$->kid[0] = $4; }
    | "block" name '(' parms ')' result body {
        $$ = fe_node_text(p, AST_BLOCK, @$, $2);
        $$->list = $4;
        $$->other = $7;
        $$->kid[0] = $6.first;
    }
    | "model" name '(' parms ')' body {
        $$ = fe_node_text(p, AST_MODEL, @$, $2);
        $$->list = $4;
        $$->other = $6;
    }
    | section
    | error { $$ = fe_broken_item(p, @1); yyerrok; }
    ;
section: "data" sbody { $$ = fe_node_text(p, AST_SECTION, @1, $1); $$->list = $2; }
       | "train" sbody { $$ = fe_node_text(p, AST_SECTION, @1, $1); $$->list = $2; }
       | "params" sbody { $$ = fe_node_text(p, AST_SECTION, @1, $1); $$->list = $2; }
       | "policy" sbody { $$ = fe_node_text(p, AST_SECTION, @1, $1); $$->list = $2; }
       ;
sbody: '{' elist '}' { $$ = $2; } ;
elist: %empty { $$ = (fe_list){0}; }
     | entry { $$ = (fe_list){0}; fe_list_add(p, &$$, $1); }
     | elist NL
     | elist NL entry { $$ = $1; fe_list_add(p, &$$, $3); }
     ;
entry: skey '=' expr { $$ = fe_node_text(p, AST_ENTRY, @$, $1); $$->kid[0] = $3; }
     | "input" name '=' expr { $$ = fe_node_text(p, AST_INPUT_ENTRY, @$, $2); $$->kid[0] = $4; }
     | globs sbody { $$ = fe_node(p, AST_GLOBS, @1); $$->list = $1; $$->other = $2; }
     | globs '=' expr { $$ = fe_node(p, AST_GLOBS, @1); $$->list = $1; $$->kid[0] = $3; }
     | error { $$ = fe_broken(p); yyerrok; }
     ;
skey: name ;
globs: STRING { $$ = (fe_list){0}; fe_list_add(p, &$$, $1); }
     | globs ',' STRING { $$ = $1; fe_list_add(p, &$$, $3); }
     ;
names: name { $$ = (fe_list){0}; fe_list_add(p, &$$, $1); }
     | names ',' name { $$ = $1; fe_list_add(p, &$$, $3); }
     ;
result: %empty { $$ = (fe_list){0}; }
      | "->" types { $$ = $2; }
      ;
types: type { $$ = (fe_list){0}; fe_list_add(p, &$$, $1); }
     | types ',' type { $$ = $1; fe_list_add(p, &$$, $3); }
     ;
parms: %empty { $$ = (fe_list){0}; }
     | parml optcomma
     ;
parml: parm { $$ = (fe_list){0}; fe_list_add(p, &$$, $1); }
     | parml ',' parm { $$ = $1; fe_list_add(p, &$$, $3); }
     ;
optcomma: %empty | ',' ;
parm: name { $$ = fe_node_text(p, AST_PARM, @$, $1); }
    | name ':' type { $$ = fe_node_text(p, AST_PARM, @$, $1); $$->kid[0] = $3; }
    | name '=' expr { $$ = fe_node_text(p, AST_PARM, @$, $1); $$->kid[1] = $3; }
    | name ':' type '=' expr { $$ = fe_node_text(p, AST_PARM, @$, $1); $$->kid[0] = $3; $$->kid[1] = $5; }
    ;
type: IDENT { $$ = fe_node_text(p, AST_TYPE, @$, $1); }
    | IDENT '[' dims ']' { $$ = fe_node_text(p, AST_TYPE, @$, $1); $$->list = $3; $$->integer = 1; }
    | '[' dims ']' { $$ = fe_node(p, AST_TYPE, @$); $$->list = $2; $$->integer = 1; }
    ;
dims: %empty { $$ = (fe_list){0}; }
    | diml optcomma
    ;
diml: dim { $$ = (fe_list){0}; fe_list_add(p, &$$, $1); }
    | diml ',' dim { $$ = $1; fe_list_add(p, &$$, $3); }
    ;
dim: expr
   | "..." { $$ = fe_node(p, AST_ELLIPSIS, @$); }
   ;
body: '{' slist '}' { $$ = $2; } ;
slist: %empty { $$ = (fe_list){0}; }
     | stmt { $$ = (fe_list){0}; fe_list_add(p, &$$, $1); }
     | slist NL
     | slist NL stmt { $$ = $1; fe_list_add(p, &$$, $3); }
     ;
stmt: exprs '=' expr { $$ = fe_node(p, AST_ASSIGN, @$); $$->list = fe_targets(p, $1); $$->kid[0] = $3; }
    | exprs {
        $$ = fe_node(p, AST_EXPR_STATEMENT, @$);
        $$->kid[0] = $1.first;
    }
    | '@' IDENT exprs '=' expr {
        $$ = fe_node_text(p, AST_ASSIGN, @$, $2);
        $$->list = fe_targets(p, $3);
        $$->kid[0] = $5;
    }
    | '@' IDENT body { $$ = fe_node_text(p, AST_REGION, @$, $2); $$->list = $3; }
    | "return" exprs { $$ = fe_node(p, AST_RETURN, @$); $$->list = $2; }
    | "repeat" head body { $$ = $2; $$->span = @$; $$->list = $3; }
    | if
    | "loss" named lmods {
        $$ = $2;
        $$->kind = AST_LOSS;
        $$->span = @$;
        for (fe_ast *m = $3.first; m; m = m->next) {
            if (m->kind == AST_LIST) $$->list = m->list;
            else $$->kid[m->integer] = m->kid[0];
        }
    }
    | "metric" named { $$ = $2; $$->kind = AST_METRIC; $$->span = @$; }
    | "metric" named "where" expr { $$ = $2; $$->kind = AST_METRIC; $$->span = @$; $$->kid[1] = $4; }
    | "output" named { $$ = $2; $$->kind = AST_OUTPUT; $$->span = @$; }
    | error { $$ = fe_broken(p); yyerrok; }
    ;
named: expr { $$ = fe_node(p, AST_OUTPUT, @$); $$->kid[0] = $1; }
     | name '=' expr { $$ = fe_node_text(p, AST_OUTPUT, @$, $1); $$->kid[0] = $3; }
     ;
lmods: %empty { $$ = (fe_list){0}; }
     | lmods "where" expr {
        fe_ast *m = fe_node(p, AST_ARG, @2);
        m->integer = 1;
        m->kid[0] = $3;
        $$ = $1;
        fe_list_add(p, &$$, m);
    }
     | lmods "weight" expr {
        fe_ast *m = fe_node(p, AST_ARG, @2);
        m->integer = 2;
        m->kid[0] = $3;
        $$ = $1;
        fe_list_add(p, &$$, m);
    }
     | lmods "trains" globs {
        fe_ast *m = fe_node(p, AST_LIST, @2);
        m->list = $3;
        $$ = $1;
        fe_list_add(p, &$$, m);
    }
     ;
head: expr { $$ = fe_node(p, AST_REPEAT, @$); $$->kid[0] = $1; }
    | name "in" expr { $$ = fe_node(p, AST_REPEAT, @$); $$->kid[0] = $3; $$->kid[1] = $1; }
    | name ',' name "in" expr { $$ = fe_node(p, AST_REPEAT, @$); $$->kid[0] = $5; $$->kid[1] = $1; $$->kid[2] = $3; }
    ;
if: "if" expr body { $$ = fe_node(p, AST_IF, @$); $$->kid[0] = $2; $$->list = $3; fe_node_close(p, $$); }
  | "if" expr body "else" body {
        $$ = fe_node(p, AST_IF, @$);
        $$->kid[0] = $2;
        $$->list = $3;
        $$->other = $5;
        fe_node_close(p, $$);
    }
  | "if" expr body "else" if {
        $$ = fe_node(p, AST_IF, @$);
        $$->kid[0] = $2;
        $$->list = $3;
        fe_list_add(p, &$$->other, $5);
        $$->depth = $5->depth;
        fe_node_close(p, $$);
    }
  ;
exprs: expr { $$ = (fe_list){0}; fe_list_add(p, &$$, $1); }
     | exprs ',' expr { $$ = $1; fe_list_add(p, &$$, $3); }
     ;
member: name | "loss" | "metric" | "output" ;
name: IDENT | "where" | "weight" | "trains" | "from" | "use" | "train" | "data" | "params" | "policy" | "input" ;
expr: expr "or" expr { $$ = fe_node_binary(p, "or", $1, $3); }
    | expr "and" expr { $$ = fe_node_binary(p, "and", $1, $3); }
    | "not" expr { $$ = fe_node_unary(p, "not", @$, $2); }
    | expr "==" expr { $$ = fe_node_binary(p, "==", $1, $3); }
    | expr "!=" expr { $$ = fe_node_binary(p, "!=", $1, $3); }
    | expr '<' expr { $$ = fe_node_binary(p, "<", $1, $3); }
    | expr '>' expr { $$ = fe_node_binary(p, ">", $1, $3); }
    | expr "<=" expr { $$ = fe_node_binary(p, "<=", $1, $3); }
    | expr ">=" expr { $$ = fe_node_binary(p, ">=", $1, $3); }
    | expr '+' expr { $$ = fe_node_binary(p, "+", $1, $3); }
    | expr '-' expr { $$ = fe_node_binary(p, "-", $1, $3); }
    | expr '*' expr { $$ = fe_node_binary(p, "*", $1, $3); }
    | expr '/' expr { $$ = fe_node_binary(p, "/", $1, $3); }
    | expr '%' expr { $$ = fe_node_binary(p, "%", $1, $3); }
    | '-' expr %prec UNARY { $$ = fe_node_unary(p, "-", @$, $2); }
    | expr "**" expr { $$ = fe_node_binary(p, "**", $1, $3); }
    | post
    ;
post: prim
    | post '(' args ')' { $$ = fe_node(p, AST_CALL, @$); $$->kid[0] = $1; $$->list = $3; fe_node_close(p, $$); }
    | post '(' args ')' "as" name {
        $$ = fe_node_text(p, AST_CALL, @$, $6);
        $$->span.end = @4.end; /* the label isn't part of the call's own span */
        $$->kid[0] = $1;
        $$->list = $3;
        fe_node_close(p, $$);
    }
    | post '[' subs ']' { $$ = fe_node(p, AST_INDEX, @$); $$->kid[0] = $1; $$->list = $3; fe_node_close(p, $$); }
    | post '[' subs ']' "as" name { /* the label is the call's: linear(x, 1)[:, 0] as head */
        $$ = fe_node(p, AST_INDEX, fe_span_join(@1, @4));
        $$->kid[0] = $1;
        $$->list = $3;
        fe_label_call(p, $1, $6);
        fe_node_close(p, $$);
    }
    | post '.' member { $$ = fe_node_text(p, AST_ATTR, @$, $3); $$->kid[0] = $1; fe_node_close(p, $$); }
    ;
prim: NUMBER | QUANTITY | STRING
    | "true" { $$ = fe_node(p, AST_BOOL, @$); $$->integer = 1; }
    | "false" { $$ = fe_node(p, AST_BOOL, @$); }
    | name
    | "_" { $$ = fe_node(p, AST_HOLE, @$); }
    | '(' expr ')' { $$ = $2; }
    | '[' list ']' { $$ = fe_node(p, AST_LIST, @$); $$->list = $2; fe_node_close(p, $$); }
    ;
list: %empty { $$ = (fe_list){0}; } | exprs optcomma ;
args: %empty { $$ = (fe_list){0}; } | argl optcomma ;
argl: arg { $$ = (fe_list){0}; fe_list_add(p, &$$, $1); }
    | argl ',' arg { $$ = $1; fe_list_add(p, &$$, $3); }
    ;
arg: expr { $$ = fe_node(p, AST_ARG, @$); $$->kid[0] = $1; fe_node_close(p, $$); }
   | name '=' expr { $$ = fe_node_text(p, AST_ARG, @$, $1); $$->kid[0] = $3; fe_node_close(p, $$); }
   ;
subs: sub { $$ = (fe_list){0}; fe_list_add(p, &$$, $1); }
    | subs ',' sub { $$ = $1; fe_list_add(p, &$$, $3); }
    ;
sub: expr { $$ = fe_node_sub(p, @$, FE_SUB_INDEX, $1, NULL); }
   | "..." { $$ = fe_node_sub(p, @$, FE_SUB_ELLIPSIS, NULL, NULL); }
   | ':' { $$ = fe_node_sub(p, @$, FE_SUB_RANGE, NULL, NULL); }
   | expr ':' { $$ = fe_node_sub(p, @$, FE_SUB_RANGE, $1, NULL); }
   | ':' expr { $$ = fe_node_sub(p, @$, FE_SUB_RANGE, NULL, $2); }
   | expr ':' expr { $$ = fe_node_sub(p, @$, FE_SUB_RANGE, $1, $3); }
   ;
%%

/* "a name, ( or the end of the line": at most four alternatives, else none. */
static void describe_expected(const yysymbol_kind_t *expected, int n, mpc_str *out) {
    if (n <= 0 || n > 4) return;
    mpc_str_append(out, "; expected ");
    for (int i = 0; i < n; i++) {
        if (i) mpc_str_append(out, i + 1 < n ? ", " : " or ");
        fe_parse_symbol(yysymbol_name(expected[i]), out);
    }
}

static int yyreport_syntax_error(const yypcontext_t *context, fe_parser *p, void *scanner) {
    (void)scanner;
    yysymbol_kind_t token = yypcontext_token(context), wanted[YYNTOKENS];
    int n = yypcontext_expected_tokens(context, wanted, YYNTOKENS);
    mpc_str expected = {0};
    describe_expected(wanted, n, &expected);
    fe_unexpected u = {.span = *yypcontext_location(context), .symbol = token == YYSYMBOL_YYEMPTY ? "" : yysymbol_name(token)};
    for (int i = 0; i < n; i++) u.wants_name = u.wants_name || wanted[i] == YYSYMBOL_IDENT;
    u.expected = mpc_str_cstr(&expected);
    fe_parse_unexpected(p, &u);
    mpc_str_free(&expected);
    return 0;
}

/* Only "memory exhausted" comes here: the stack's limit, or no memory. */
static void mpg_error(const MPG_LTYPE *loc, fe_parser *p, void *scanner, const char *message) {
    (void)scanner;
    (void)message;
    fe_parse_exhausted(p, *loc);
}
