#define TILEGEN_D{{ registers }}{% for line in text %}{{ " \\\n  " }}"{{ line }}"{% endfor %}

#define TILEGEN_OPERANDS_D{{ registers }}(d){% for line in operands %}{{ " \\\n  " }}{{ line }}{% endfor %}

