// Operands for {{ run }} accumulators in a row
#define TILEGEN_RUN{{ run }}(d, i){% for line in lines %}{{ " \\\n  " }}{{ line }}{% endfor %}

