// The accumulators of a thread as operands, {{ run }} in a row; below, all of them in an instruction's text and as operands
#define TILEGEN_RUN{{ run }}(d, i){% for line in lines %}{{ " \\\n  " }}{{ line }}{% endfor %}

